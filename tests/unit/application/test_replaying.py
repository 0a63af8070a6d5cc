from datetime import datetime, timedelta
from itertools import pairwise

import attrs
import pytest

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.orders import BackfillOrder
from tests.unit.application.house import House

DAY = timedelta(days=1)
TICK = timedelta(milliseconds=50)


@attrs.define(kw_only=True)
class Backfilling:
    """A backfill that one scheduler takes on, and when it looked."""

    house: House
    works: bool = True
    looks: list[datetime] = attrs.field(factory=list[datetime])

    async def go_on_for(self, seconds: float, *, rate: float, at_once: int) -> None:
        """Order it, and let time pass. The worker ends runs at once, if it *works*."""
        house = self.house
        await house.open()
        house.add()
        await house.turn()
        [stored] = house.schedules.schedules(["report"])
        order = BackfillOrder(
            scheduler_id=stored.id,
            schedule="report",
            since=house.now - DAY,
            until=house.now,
            rate=rate,
            at_once=at_once,
        )
        house.container.replay_store().order(order, now=house.now)
        replayer = house.container.replayer(random_fraction=lambda: 0.5)
        rests_until, ends_at = house.now, house.now + timedelta(seconds=seconds)
        while house.now < ends_at:
            house.clock.advance(TICK)
            if house.now >= rests_until:
                self.looks.append(house.now)
                rests_until = house.now + timedelta(seconds=replayer.round())
            if self.works:
                await house.work()

    @property
    def ended(self) -> int:
        """How many runs have ended."""
        return len(self.house.executions(State.SUCCEEDED))


@pytest.mark.parametrize(("rate", "at_once", "expected"), [(10, 1, 20), (2, 5, 8)])
async def test_places_that_runs_leave_are_filled_soon(
    rate: float, at_once: int, expected: int
) -> None:
    backfilling = Backfilling(house=House())

    await backfilling.go_on_for(5, rate=rate, at_once=at_once)

    assert expected <= backfilling.ended <= 5 * rate + 1


async def test_while_nothing_ends_it_is_looked_once_a_second() -> None:
    backfilling = Backfilling(house=House(), works=False)

    await backfilling.go_on_for(20, rate=20, at_once=3)

    gaps = [then - before for before, then in pairwise(backfilling.looks)]
    assert gaps[-1] == max(gaps) == timedelta(seconds=1)
    assert len(gaps) < 25

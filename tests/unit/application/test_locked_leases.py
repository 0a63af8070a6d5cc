"""Of what could not be given up, only what somebody held has a lease again."""

from collections.abc import Sequence

import pytest

from cronhare.application.scheduling.locked_leases import LockedLeases
from cronhare.domain.execution import Execution
from cronhare.ports.attempts import Busy
from tests.unit.application.deliveries import begin
from tests.unit.application.house import LEASE, House


@pytest.mark.parametrize(("answer", "is_given_up"), [(Busy(), False), (Busy(is_asked=False), True)])
async def test_what_was_not_asked_for_is_given_up_by_the_next_look(
    answer: Busy, is_given_up: bool
) -> None:
    house = House(holds=True)
    await begin(house)
    house.clock.advance(LEASE)
    locked = LockedLeases(house.attempts, LEASE)

    def look() -> Sequence[Execution]:
        locked.begin_round()
        return locked.renew_unlocked(house.claims.lapsed(now=house.now, limit=9), house.now)

    first = look()
    locked.note(first, [answer])
    again = look()

    assert [one.id for one in first] == [house.only.id]
    assert bool(again) is is_given_up
    assert house.only.lease_until == house.now + (LEASE * (not is_given_up))

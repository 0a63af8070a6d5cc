"""What the use cases count, each event once and where it is decided."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.schedules.skips import SkipKind
from cronhare.ports.broker import Published
from cronhare.ports.system import SilentMetrics
from tests.unit.application.deliveries import begin, due, live, run
from tests.unit.application.endings import failure, one_by_one
from tests.unit.application.house import LEASE, House

MINUTE = timedelta(minutes=1)


class Noted(SilentMetrics):
    """Counts by names of its own."""

    def __init__(self) -> None:
        self.count = Counter[str]()

    def ticked(self) -> None:
        self.count["ticked"] += 1

    def claimed(self, executions: Sequence[Execution], *, now: datetime) -> None:
        self.count["claimed"] += len(executions)
        self.count["late"] += sum(int((now - one.due_at).total_seconds()) for one in executions)

    def skipped(self, instants: Mapping[SkipKind, int]) -> None:
        self.count.update({f"skipped {kind}": many for kind, many in instants.items()})

    def published(self, executions: Sequence[Execution], outcomes: Sequence[Published]) -> None:
        assert len(executions) == len(outcomes)
        self.count.update(each.value for each in outcomes)

    def resent(self, executions: int) -> None:
        self.count["resent"] += executions

    def lost(self, attempts: int) -> None:
        self.count["lost"] += attempts

    def started(self, execution: Execution) -> None:
        assert execution.started_at is not None
        self.count["started"] += 1

    def attempt_ended(self, ending: Ending, *, seconds: float) -> None:
        assert seconds >= 0
        self.count[f"ended {ending}"] += 1

    def recorded(self, state: State) -> None:
        self.count[f"recorded {state}"] += 1

    def superseded(self) -> None:
        self.count["superseded"] += 1

    def fenced(self) -> None:
        self.count["fenced"] += 1

    def lease_lost(self) -> None:
        self.count["lease lost"] += 1

    def quarantined(self) -> None:
        self.count["quarantined"] += 1


async def test_a_run_that_is_retried_is_counted_step_by_step() -> None:
    noted = Noted()
    house = House(script=one_by_one([failure()]), metrics=noted)

    await run(house)
    await live(house, LEASE * 2)

    count = noted.count
    assert (count["claimed"], count["late"], count["confirmed"], count["started"]) == (1, 0, 1, 2)
    assert (count["ended failed"], count["ended succeeded"]) == (1, 1)
    assert (count["recorded retrying"], count["recorded succeeded"]) == (1, 1)
    assert count["ticked"] > 10
    assert not {"lost", "fenced", "superseded", "quarantined", "resent"} & count.keys()


def test_skips_are_counted_by_their_kind() -> None:
    noted = Noted()
    house = House(metrics=noted)
    house.add()
    house.dispatcher.tick(house.now)
    house.clock.advance(10 * MINUTE)
    house.dispatcher.tick(house.now)

    assert noted.count["skipped missed"] + noted.count["claimed"] == 10
    assert noted.count["skipped missed"] > 5


def test_a_broker_that_is_away_leaves_publishes_unknown_and_what_is_sent_again_is_counted() -> None:
    noted = Noted()
    house = House(metrics=noted)
    house.broker.go_away()
    due(house)
    house.broker.come_back()
    house.clock.advance(10 * MINUTE)
    house.reconciler.tick(house.now)

    assert (noted.count["unknown"], noted.count["resent"], noted.count["confirmed"]) == (1, 1, 1)


async def test_a_copy_is_fenced_and_what_cannot_be_read_is_quarantined() -> None:
    noted = Noted()
    house = House(metrics=noted)
    await run(house)
    house.publish(b"no JSON")
    due_again = house.deliveries
    assert due_again == []
    await house.work()
    house.publisher.publish([house.only], now=house.now)
    await house.work()

    assert (noted.count["quarantined"], noted.count["fenced"]) == (1, 1)


async def test_an_attempt_whose_worker_vanished_is_lost_and_its_end_does_not_count() -> None:
    noted = Noted()
    house = House(metrics=noted, holds=True)
    await begin(house)
    house.reconciler.tick(house.now)
    house.clock.advance(LEASE * 2)
    house.reconciler.tick(house.now)
    house.clock.advance(LEASE)
    house.reconciler.tick(house.now)
    house.keeper.renew()
    await house.settle()

    assert (noted.count["lost"], noted.count["lease lost"]) == (1, 1)

"""Schedulers on one ledger, some of which the broker is away for."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import attrs
import pytest

from cronhare.application.publish import ExecutionPublisher
from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.application.scheduling.reconcile import Reconciler
from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.schedules.planning import HEAD_START
from cronhare.entrypoints.processes.scheduler import RECONCILE_EVERY, SchedulerRound
from cronhare.ports.broker import Envelope, Published
from tests.trial_broker import TrialBroker
from tests.unit.application.deliveries import MINUTE, SECOND
from tests.unit.application.house import LEASE, House, Inline

SCHEDULES = 4
STEP = SECOND / 4


class Road(TrialBroker):
    """One replica's road to a broker that all share."""

    is_cut = False

    def __init__(self, broker: TrialBroker) -> None:
        self._shared = broker

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        if self.is_cut:
            return [Published.UNKNOWN] * len(batch)
        return self._shared.publish(batch)

    def is_reachable(self) -> bool:
        return not self.is_cut and self._shared.is_reachable()


@attrs.define
class Replica:
    """A scheduler that sleeps as long as it wants to."""

    house: House
    name: str
    phase: timedelta
    road: Road = attrs.field(init=False)
    rounds: SchedulerRound = attrs.field(init=False)
    wakes_at: datetime = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.road = Road(self.house.broker)
        self.wakes_at = self.house.now + self.phase
        publisher = ExecutionPublisher(
            broker=self.road,
            claims=self.house.claims,
            run_system_task=lambda _execution, _now: None,
            signer=self.house.signer,
            in_memory=False,
        )
        self.rounds = SchedulerRound(
            claims=self.house.claims,
            dispatcher=Dispatcher(
                claims=self.house.claims, publisher=publisher, executor=Inline(), node=self.name
            ),
            reconciler=Reconciler(
                claims=self.house.claims,
                attempts=self.house.attempts,
                publisher=publisher,
                policies=RetryPolicies(self.house.policy),
                random_fraction=lambda: 0.0,
                lease=LEASE,
            ),
            clock=self.house.clock,
            lease=LEASE,
        )

    def look(self) -> None:
        """Make a round, if it is time."""
        if self.house.now >= self.wakes_at:
            self.wakes_at = self.house.now + timedelta(seconds=max(self.rounds.round(), 0.01))


@attrs.define
class Fleet:
    """So many schedulers, of which the first ones look first."""

    many: int
    phase: timedelta = SECOND
    house: House = attrs.field(init=False, factory=House)
    replicas: list[Replica] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        for number in range(SCHEDULES):
            self.house.add(f"report-{number}")
        self.replicas = [
            Replica(self.house, f"ant-{number}", number * self.phase) for number in range(self.many)
        ]

    def go_on(self, duration: timedelta) -> None:
        """Let time pass."""
        for _ in range(duration // STEP):
            self.house.clock.advance(STEP)
            for replica in self.replicas:
                replica.look()

    def cut(self, *numbers: int, is_cut: bool = True) -> None:
        """Let the broker be away for some."""
        for number in numbers:
            self.replicas[number].road.is_cut = is_cut

    def lateness(self, since: datetime) -> list[timedelta]:
        """Tell how late each instant since then is in a queue; as of now, if it is in none."""
        rows = [row for row in self.house.executions() if row.due_at >= since]
        return [(row.published_at or self.house.now) - row.due_at for row in rows]

    def waiting(self) -> list[Execution]:
        """Find what is in no queue."""
        return self.house.executions(State.CLAIMED)


@pytest.mark.parametrize(
    ("cut", "sound", "phase"),
    [(1, 1, STEP), (1, 2, SECOND), (3, 1, 3 * SECOND), (1, 1, RECONCILE_EVERY)],
)
def test_those_that_are_cut_off_delay_nothing_that_a_sound_one_can_publish(
    cut: int, sound: int, phase: timedelta
) -> None:
    fleet = Fleet(cut + sound, phase)
    fleet.cut(*range(cut))

    fleet.go_on(4 * MINUTE + SECOND)

    late = fleet.lateness(fleet.house.start)
    assert len(late) == 4 * SCHEDULES
    assert max(late) <= SECOND


@pytest.mark.parametrize(
    ("cut", "sound", "phase"),
    [(1, 1, STEP), (1, 2, SECOND), (3, 1, 3 * SECOND), (1, 1, RECONCILE_EVERY)],
)
def test_what_one_has_claimed_that_loses_the_broker_is_taken_over(
    cut: int, sound: int, phase: timedelta
) -> None:
    fleet = Fleet(cut + sound, phase)
    fleet.go_on(MINUTE - SECOND)
    for replica in fleet.replicas[:cut]:
        lose_while_publishing(replica.road)

    fleet.go_on(MINUTE - SECOND)

    late = fleet.lateness(fleet.house.start)
    assert len(late) == SCHEDULES
    assert max(late) <= cut * Graces().claimed + RECONCILE_EVERY  # each notices it by trying


def lose_while_publishing(road: Road) -> None:
    """Let the broker be away from the next message on, of which nobody knew before."""

    def publish(batch: Sequence[Envelope]) -> Sequence[Published]:
        road.is_cut = True
        return [Published.UNKNOWN] * len(batch)

    road.publish = publish  # type: ignore[method-assign]


@pytest.mark.parametrize("many", [1, 3])
def test_where_all_are_cut_off_each_instant_is_claimed_and_sent_when_the_broker_is_back(
    many: int,
) -> None:
    fleet = Fleet(many)
    fleet.go_on(SECOND)
    fleet.cut(*range(many))
    fleet.go_on(8 * MINUTE + HEAD_START)
    rows = fleet.waiting()

    fleet.cut(*range(many), is_cut=False)
    fleet.go_on(Graces().claimed + RECONCILE_EVERY)

    assert len(rows) == 8 * SCHEDULES
    assert {(row.due_at.second, row.due_at.microsecond) for row in rows} == {(0, 0)}
    assert max(claimed_after(row) for row in rows) <= HEAD_START + SECOND
    assert fleet.waiting() == []


def claimed_after(row: Execution) -> timedelta:
    return row.executed_at - row.due_at


def test_one_that_was_cut_off_claims_in_time_again_by_itself() -> None:
    fleet = Fleet(2)
    fleet.cut(0)
    fleet.go_on(5 * MINUTE + SECOND)

    fleet.cut(0, is_cut=False)
    del fleet.replicas[1]
    back_at = fleet.house.now
    fleet.go_on(5 * MINUTE)

    assert max(fleet.lateness(back_at)) <= SECOND


def test_the_last_one_that_is_sound_may_die() -> None:
    fleet = Fleet(2)
    fleet.cut(0)
    fleet.go_on(5 * MINUTE + SECOND)

    del fleet.replicas[1]
    died_at = fleet.house.now
    fleet.go_on(5 * MINUTE + HEAD_START)

    rows = [row for row in fleet.waiting() if row.due_at >= died_at]
    assert len(rows) == 5 * SCHEDULES
    assert max(claimed_after(row) for row in rows) <= HEAD_START + SECOND

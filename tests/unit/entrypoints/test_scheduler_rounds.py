"""Rounds of schedulers: who lives is not given up, who died is, who is cut off delays none."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import attrs
import pytest

from cronhare.adapters.system.clock import HostClock, LedgerClock
from cronhare.application.publish import ExecutionPublisher
from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.application.scheduling.lapses import MOST_IN_A_ROW
from cronhare.application.scheduling.reconcile import Reconciler
from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.nodes import measured_every, renewed_every
from cronhare.domain.schedules.planning import HEAD_START
from cronhare.entrypoints.processes.scheduler import RECONCILE_EVERY, SchedulerRound
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import StartRequest
from cronhare.ports.broker import Envelope, Published
from cronhare.ports.system import ClockPort
from tests.ports import NO_NACKS
from tests.trial_broker import TrialBroker
from tests.unit.application.deliveries import MINUTE, SECOND, NodeClock, due
from tests.unit.application.house import LEASE, House, Inline

HOUR = timedelta(hours=1)

#: What died is given up so long after its lease has lapsed, though everything went on failing.
BOUND = 2 * (LEASE + MOST_IN_A_ROW * RECONCILE_EVERY)


@attrs.define
class Plant:
    """A scheduler, and an owner of the only execution who renews it while *alive*."""

    alive: bool = True
    of_a_file: bool = False
    has_begun: bool = True
    house: House = attrs.field(init=False, factory=House)
    node: NodeClock = attrs.field(init=False)
    kept: ClockPort = attrs.field(init=False)
    rounds: SchedulerRound = attrs.field(init=False)
    seconds: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        due(self.house)
        self.node = NodeClock(self.house.clock)
        if self.of_a_file:
            self.kept = HostClock(self.node)
        else:
            self.kept = LedgerClock(self.house.claims.now, self.node)
        self.rounds = SchedulerRound(
            claims=self.house.claims,
            dispatcher=self.house.dispatcher,
            reconciler=self.house.reconciler,
            clock=self.node,
            lease=LEASE,
        )
        if self.has_begun:
            self.start()

    def start(self) -> None:
        start = StartRequest(execution_id=self.house.only.id, attempt=1, nacks=NO_NACKS)
        self.house.attempts.start([start], now=self.kept.now(), node="bee-7", lease=LEASE)

    def go_on(self, duration: timedelta) -> None:
        """Let time pass: owner and scheduler do what they do, and survive what fails."""
        for _ in range(int(duration / SECOND)):
            self.house.clock.advance(SECOND)
            self.seconds += 1
            self._every(measured_every(LEASE), self._measure)
            self._every(RECONCILE_EVERY, self.look)
            self._every(renewed_every(LEASE), self._renew)

    def look(self) -> None:
        try:
            self.rounds.round()
        except LedgerUnavailable:
            return

    def set_server(self, step: timedelta) -> None:
        """Set the ledger's clock, of which the nodes' clocks know nothing."""
        if step > timedelta(0):
            self.house.clock.advance(step)
            self.node.stood += step
        else:
            self.house.clock.move_to(self.house.now + step)
        self.node.ahead -= step

    @property
    def state(self) -> State:
        return self.house.only.state

    def _every(self, rest: timedelta, what: Callable[[], None]) -> None:
        if self.seconds % (rest / SECOND) == 0:
            what()

    def _measure(self) -> None:
        if isinstance(self.kept, LedgerClock):
            self.kept.measure()

    def _renew(self) -> None:
        if self.alive and self.state is State.RUNNING:
            self.house.attempts.renew(
                [self.house.only.id], now=self.kept.now(), node="bee-7", lease=LEASE
            )


@pytest.mark.parametrize("of_a_file", [True, False])
@pytest.mark.parametrize("step", [HOUR, -HOUR, timedelta(seconds=45)], ids=str)
def test_what_runs_outlives_a_step_of_its_clock(step: timedelta, *, of_a_file: bool) -> None:
    plant = Plant(of_a_file=of_a_file)
    plant.go_on(LEASE + SECOND)

    plant.set_server(step)
    if of_a_file:  # the host's: the file knows no other
        plant.node.ahead += step
    plant.look()  # before anybody has renewed, or asked for the time
    plant.go_on(2 * LEASE)

    assert (plant.state, plant.house.only.attempt) == (State.RUNNING, 1)


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=str)
def test_what_starts_after_a_step_of_the_servers_clock_is_not_declared_lost(
    step: timedelta,
) -> None:
    plant = Plant(has_begun=False)
    plant.go_on(LEASE + SECOND)

    plant.set_server(step)
    plant.start()  # by the time as it was
    plant.look()
    plant.go_on(2 * LEASE)

    assert (plant.state, plant.house.only.attempt) == (State.RUNNING, 1)


@pytest.mark.parametrize("of_a_file", [True, False])
def test_what_ran_when_all_of_it_slept_is_renewed_before_it_is_given_up(*, of_a_file: bool) -> None:
    plant = Plant(of_a_file=of_a_file)
    plant.go_on(2 * LEASE)

    for _ in range(3):
        plant.house.clock.advance(HOUR)
        plant.look()  # the scheduler wakes up first
        plant.go_on(LEASE / 2)

    assert (plant.state, plant.house.only.attempt) == (State.RUNNING, 1)


def failing(method: str) -> Callable[[Plant], None]:
    return lambda plant: plant.house.outage.begin(method)


def now_and_then(method: str, *, every: int) -> Callable[[Plant], None]:
    """Fail with each *every*-th second of the plant: what answers between is a look each time."""

    def begin(plant: Plant) -> None:
        def flap() -> None:
            if plant.seconds // every % 2:
                plant.house.outage.begin(method)
            else:
                plant.house.outage.end()

        plant.house.clock.on_jump(flap)

    return begin


def leaping(plant: Plant) -> None:
    """Part the scheduler's stopwatch from the ledger's time again and again."""

    def leap() -> None:
        if plant.seconds % 7 == 0:
            plant.node.stood += LEASE

    plant.house.clock.on_jump(leap)


@pytest.mark.parametrize(
    "trouble",
    [
        failing("next_due"),
        failing("doubt"),
        now_and_then("doubt", every=5),
        now_and_then("next_due", every=60),
        leaping,
    ],
    ids=[
        "nothing can be claimed",
        "the broker's silence cannot be looked into",
        "doubts fail now and then",
        "claims fail for a minute each",
        "clocks leap again and again",
    ],
)
def test_what_died_is_given_up_whatever_else_fails(trouble: Callable[[Plant], None]) -> None:
    plant = Plant(alive=False)
    trouble(plant)

    plant.go_on(LEASE + BOUND)

    assert plant.house.only.crashed_at != ()


def test_outages_that_come_back_at_once_cost_nothing_that_lives() -> None:
    plant = Plant()
    plant.go_on(2 * LEASE)

    for _ in range(MOST_IN_A_ROW):
        plant.house.clock.advance(10 * LEASE)
        plant.look()  # heard, and then away again before anybody has renewed

    plant.go_on(2 * LEASE)

    assert (plant.state, plant.house.only.attempt) == (State.RUNNING, 1)


@pytest.mark.parametrize("was_there", [True, False])
def test_after_an_outage_what_died_is_given_up_a_lease_later(*, was_there: bool) -> None:
    plant = Plant(alive=False)
    if was_there:
        plant.house.outage.begin("next_due")
        plant.look()
    plant.house.clock.advance(4 * LEASE)
    plant.house.outage.end()

    plant.look()  # the scheduler is back, or begins, before the worker
    plant.go_on(LEASE - RECONCILE_EVERY)
    spared = plant.state
    plant.go_on(2 * RECONCILE_EVERY)

    assert (spared, plant.state) == (State.RUNNING, State.RETRYING)


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


cut_off = pytest.mark.parametrize(
    ("cut", "sound", "phase"), [(1, 2, SECOND), (3, 1, 3 * SECOND), (1, 1, RECONCILE_EVERY)]
)


@cut_off
def test_those_that_are_cut_off_delay_nothing_that_a_sound_one_can_publish(
    cut: int, sound: int, phase: timedelta
) -> None:
    fleet = Fleet(cut + sound, phase)
    fleet.cut(*range(cut))

    fleet.go_on(4 * MINUTE + SECOND)

    late = fleet.lateness(fleet.house.start)
    assert len(late) == 4 * SCHEDULES
    assert max(late) <= SECOND


@cut_off
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

"""What lives is not given up after an outage, a sleep or a leap; what died is, whatever fails."""

from collections.abc import Callable
from datetime import timedelta

import attrs
import pytest

from cronhare.adapters.system.clock import HostClock, LedgerClock
from cronhare.application.scheduling.lapses import MOST_IN_A_ROW
from cronhare.domain.execution import State
from cronhare.domain.nodes import measured_every, renewed_every
from cronhare.entrypoints.processes.scheduler import RECONCILE_EVERY, SchedulerRound
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import StartRequest
from cronhare.ports.system import ClockPort
from tests.ports import NO_NACKS
from tests.unit.application.deliveries import NodeClock, due
from tests.unit.application.house import LEASE, House

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)

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


@pytest.mark.parametrize("step", [HOUR, -HOUR, timedelta(seconds=45)], ids=str)
def test_what_runs_outlives_a_step_of_the_servers_clock(step: timedelta) -> None:
    plant = Plant()
    plant.go_on(LEASE + SECOND)

    plant.set_server(step)
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


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=str)
def test_a_host_with_a_file_may_be_set(step: timedelta) -> None:
    plant = Plant(of_a_file=True)
    plant.go_on(2 * LEASE)
    plant.set_server(step)  # the host's, for the file knows no other
    plant.node.ahead += step

    plant.look()
    plant.go_on(2 * LEASE)

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
        now_and_then("next_due", every=5),
        now_and_then("doubt", every=5),
        now_and_then("lapsed", every=5),
        now_and_then("next_due", every=60),
        leaping,
    ],
    ids=[
        "nothing can be claimed",
        "the broker's silence cannot be looked into",
        "claims fail now and then",
        "doubts fail now and then",
        "looks fail now and then",
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


def test_after_an_outage_what_died_is_given_up_a_lease_later() -> None:
    plant = Plant(alive=False)
    plant.house.outage.begin("next_due")
    plant.look()
    plant.house.clock.advance(4 * LEASE)
    plant.house.outage.end()

    plant.look()  # the scheduler is back before the worker
    plant.go_on(LEASE - RECONCILE_EVERY)
    spared = plant.state
    plant.go_on(2 * RECONCILE_EVERY)

    assert (spared, plant.state) == (State.RUNNING, State.RETRYING)


def test_a_scheduler_that_begins_after_an_outage_gives_a_lease_as_well() -> None:
    plant = Plant(alive=False)
    plant.house.clock.advance(4 * LEASE)

    plant.look()
    plant.go_on(LEASE - RECONCILE_EVERY)
    spared = plant.state
    plant.go_on(2 * RECONCILE_EVERY)

    assert (spared, plant.state) == (State.RUNNING, State.RETRYING)

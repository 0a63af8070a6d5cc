"""Whoever claims by hand sends the message, and the schedulers leave it to him for a moment."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from cronhare.adapters.sql.nodes import SqlNodeStore
from cronhare.application.administration.changing.runs import Administrator
from cronhare.application.bell import HEAD_START, PAUSE, SAID_FOR, SendingBell
from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.nodes import DISCONNECTED_AFTER, SILENT_AFTER, NodeReport
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.topology import MAIN_QUEUE
from tests.actors import ADA
from tests.trial_broker import TrialBroker
from tests.unit.application.conftest import Lines
from tests.unit.application.endings import always, failure
from tests.unit.application.house import House

SECOND = timedelta(seconds=1)
NOON = House().now


class Office:
    """A person's shell beside a house, whose broker it opens anew each time."""

    def __init__(self, house: House, *, lasts: bool = False) -> None:
        self.house = house
        self.opened = 0
        self.nodes = SqlNodeStore(house.engine, house.clock)
        self.bell = SendingBell(
            open_broker=self._open,
            nodes=self.nodes,
            signer=house.signer,
            foreign_queues=house.foreign_queues,
            lasts=lasts,
        )
        self.administrator = Administrator(
            schedules=house.schedules,
            records=house.records,
            names=house.names,
            node="shell",
            uuid=house.uuid,
            policy=RetryPolicy(attempts=1),
            bell=self.bell,
            trail=house.trail,
        )
        house.add(schedule=None)
        self.report()

    def _open(self) -> TrialBroker:
        self.opened += 1
        return self.house.broker

    def report(
        self,
        *queues: str,
        role: str = "worker",
        ago: timedelta = timedelta(0),
        cut_off: timedelta = timedelta(0),
    ) -> None:
        """Report a worker, seen some time *ago*, and *cut_off* from the broker for some time."""
        report = NodeReport(
            name="bee",
            role=role,
            host="hive",
            version="1",
            started_at=NOON,
            seen_at=self.house.now - ago,
            queues=queues or (MAIN_QUEUE,),
            consumed_at=self.house.now - cut_off,
        )
        self.nodes.report(report, kept_for=timedelta(hours=1))

    def run(self, name: str = "report") -> Execution:
        """Ask for a run."""
        return self.administrator.run_now(name, params=None, actor=ADA)

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return self.house.broker.depth(MAIN_QUEUE)


def test_a_scheduler_leaves_it_to_its_command_and_then_sends_it() -> None:
    """Whether the first message was in the right place, nobody knows but its worker."""
    office = Office(House())

    office.run()
    office.house.reconciler.tick(office.house.now)
    assert office.waiting == 1
    office.house.clock.advance(HEAD_START + SECOND)
    office.house.reconciler.tick(office.house.now)

    assert office.waiting == 2
    assert office.house.only.state is State.PUBLISHED
    assert Graces().claimed > HEAD_START + 5 * SECOND


async def test_a_replay_begins_without_any_scheduler() -> None:
    office = Office(House(script=always(failure()), policy=RetryPolicy(attempts=1)))
    office.run()
    await office.house.open()
    await office.house.work()
    [archived] = office.house.records.archive()

    office.administrator.replay([archived.id], actor=ADA)
    await office.house.work()

    assert (office.house.only.state, office.house.only.attempt) == (State.FAILED, 2)


def test_a_broker_that_is_away_is_told_and_left_alone_for_a_while(lines: Lines) -> None:
    office = Office(House())
    office.house.broker.go_away()

    office.run()
    office.run()

    [line] = lines()
    assert line.endswith(
        "A scheduler sends 1 execution (1) within 10 s: the broker gave no answer in time"
    )
    office.house.broker.come_back()
    assert (office.opened, office.waiting) == (1, 0)
    office.house.clock.advance(PAUSE)
    office.report()
    office.run()
    assert (office.opened, office.waiting) == (2, 1)
    office.house.reconciler.tick(office.house.now)
    assert office.waiting == 3


@pytest.mark.parametrize(
    "report",
    [
        lambda office: office.report("mails"),
        lambda office: office.report(role="scheduler"),
        lambda office: office.report(ago=2 * SILENT_AFTER),
        lambda office: office.report(cut_off=2 * DISCONNECTED_AFTER),
    ],
)
def test_what_no_worker_serves_is_left_to_a_scheduler(
    report: Callable[[Office], None], lines: Lines
) -> None:
    office = Office(House())
    report(office)

    office.run()

    assert (office.opened, office.waiting) == (0, 0)
    assert f"no worker reports itself that serves queue {MAIN_QUEUE}" in lines()[0]


def test_what_another_program_serves_is_left_to_a_scheduler() -> None:
    """Its worker cannot tell that the scheduler's message is a copy."""
    office = Office(House(foreign_queues=[MAIN_QUEUE]))

    office.run()

    assert (office.opened, office.waiting) == (0, 0)


def test_a_fault_fails_no_command(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(House())
    monkeypatch.setattr(office.nodes, "nodes", None)

    office.run()

    assert office.house.only.state is State.CLAIMED
    assert "A scheduler sends 1 execution (1) within 10 s" in lines()[0]


def test_a_bell_that_lasts_keeps_its_connection_and_says_a_fault_once_a_minute(
    lines: Lines,
) -> None:
    office = Office(House(), lasts=True)
    office.run()
    office.run()
    assert (office.opened, office.waiting) == (1, 2)

    for told in (1, 2):
        office.report("mails")
        office.run()
        office.run()
        assert len(lines()) == told
        office.house.clock.advance(SAID_FOR)

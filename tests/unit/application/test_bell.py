"""Whoever claims by hand sends the message; who enqueues waits for no broker."""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from queue import Queue
from typing import Any

import attrs
import pytest

from cronhare.application.bell import PAUSE, BackgroundBell, SendingBell
from cronhare.domain.execution import Execution, State
from cronhare.domain.nodes import DISCONNECTED_AFTER, SILENT_AFTER
from cronhare.domain.topology import MAIN_QUEUE
from tests.actors import ADA
from tests.trial_broker import TrialBroker
from tests.unit.application.conftest import Lines
from tests.unit.application.house import NOON, House
from tests.unit.executions import execution

SECOND = timedelta(seconds=1)


class Office:
    """A person's shell beside a house, whose broker it opens anew each time."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.opened = 0
        self.bell = SendingBell(
            open_broker=self._open,
            nodes=house.container.nodes(),
            signer=house.signer,
            foreign_queues=house.foreign_queues,
        )
        self.administrator = attrs.evolve(house.administrator, bell=self.bell)
        house.add(schedule=None)
        house.report()

    def _open(self) -> TrialBroker:
        self.opened += 1
        return self.house.broker

    def run(self, name: str = "report") -> Execution:
        """Ask for a run."""
        return self.administrator.run_now(name, params=None, actor=ADA)

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return self.house.broker.depth(MAIN_QUEUE)


def test_a_broker_that_is_away_is_told_and_left_alone_for_a_while(lines: Lines) -> None:
    office = Office(House())
    office.house.broker.go_away()

    office.run()
    office.run()

    [line] = lines()
    assert "A scheduler sends 1 execution (1) within 10 s" in line
    assert line.endswith(": the broker gave no answer in time")
    office.house.broker.come_back()
    assert (office.opened, office.waiting) == (1, 0)
    office.house.clock.advance(PAUSE)
    office.house.report()
    office.run()
    assert (office.opened, office.waiting) == (2, 1)
    office.house.reconciler.tick(office.house.now)
    assert office.waiting == 3


@pytest.mark.parametrize(
    ("fields", "foreign"),
    [
        ({"queues": ("mails",)}, ()),
        ({"seen_at": NOON - 2 * SILENT_AFTER}, ()),
        ({"consumed_at": NOON - 2 * DISCONNECTED_AFTER}, ()),
        ({}, (MAIN_QUEUE,)),
    ],
)
def test_what_no_worker_or_another_program_serves_is_left_to_a_scheduler(
    fields: dict[str, Any], foreign: Sequence[str], lines: Lines
) -> None:
    """Another program's worker cannot tell that the scheduler's message is a copy."""
    office = Office(House(foreign_queues=foreign))
    office.house.report(**fields)

    office.run()

    assert (office.opened, office.waiting) == (0, 0)
    no_worker = f"no worker reports itself that serves queue {MAIN_QUEUE}"
    assert any(no_worker in line for line in lines()) is (not foreign)


def test_a_fault_fails_no_command(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(House())
    monkeypatch.setattr(office.house.container.nodes(), "nodes", None)

    office.run()

    assert office.house.only.state is State.CLAIMED
    assert "A scheduler sends 1 execution (1) within 10 s" in lines()[0]


# A bell in the background


@attrs.define
class Door:
    """A bell that is heard once it is open, and a ledger: *committed* after so many *looks*."""

    heard: Queue[list[int]] = attrs.field(factory=Queue[list[int]])
    reached: threading.Event = attrs.field(factory=threading.Event)
    open: threading.Event = attrs.field(factory=threading.Event)
    head_start: timedelta = timedelta(seconds=3)
    committed: dict[int, Execution] = attrs.field(factory=dict[int, Execution])
    looks: int = 0

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:
        assert now == NOON
        self.reached.set()
        assert self.open.wait(10)
        self.heard.put([each.id for each in executions])

    def find(self, ids: Collection[int]) -> Mapping[int, Execution]:
        self.looks -= 1
        if 13 in ids:
            raise OSError("the ledger is away")
        return {i: self.committed[i] for i in ids if i in self.committed and self.looks < 0}


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def bell(door: Door) -> Iterator[BackgroundBell]:
    bell = BackgroundBell(door, now=lambda: NOON, find=door.find)
    yield bell
    door.open.set()
    bell.close()


def test_nobody_waits_and_what_comes_meanwhile_is_rung_for_together(
    door: Door, bell: BackgroundBell
) -> None:
    bell.ring([execution(id=1)], now=NOON)
    assert door.reached.wait(10)
    bell.ring([execution(id=2)], now=NOON)
    bell.ring([execution(id=3)], now=NOON)
    door.open.set()
    bell.close()

    assert (door.heard.get_nowait(), door.heard.get_nowait()) == ([1], [2, 3])


def test_what_is_about_to_be_committed_is_looked_for_and_what_is_rolled_back_is_not_rung_for(
    door: Door, bell: BackgroundBell
) -> None:
    door.open.set()
    door.looks, door.committed = 3, {7: execution(id=7)}

    bell.ring_once_there([7, 8])

    assert door.heard.get(timeout=10) == [7]
    assert door.heard.empty()


def test_a_ledger_that_is_away_does_not_end_the_thread(door: Door, bell: BackgroundBell) -> None:
    door.open.set()

    bell.ring_once_there([13])
    while not door.looks:
        pass
    bell.ring([execution(id=1)], now=NOON)

    assert door.heard.get(timeout=10) == [1]

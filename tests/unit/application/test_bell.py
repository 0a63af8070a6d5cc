"""Whoever claims by hand sends the message; who enqueues waits for no broker; a fifo rings."""

import logging
import os
import stat
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import attrs
import pytest

from cronhare.adapters.system.fifo_bell import FifoBell, FifoListener, beside, listen
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


#: Seconds: whoever waits for so long hangs.
HANGS = 20.0


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    file = tmp_path / "cronhare.sqlite3"
    file.touch()
    return file


def listening(ledger: Path) -> FifoListener:
    found = listen(str(ledger))
    assert found is not None
    return found


def ring(ledger: Path) -> None:
    FifoBell(str(ledger)).ring([execution()], now=NOON)


def test_a_ring_ends_the_wait_even_if_it_came_before(ledger: Path) -> None:
    bell = listening(ledger)
    assert bell.wait(0) is False

    ring(ledger)
    ring(ledger)

    assert bell.wait(HANGS) is True
    assert bell.wait(0) is False


def test_it_is_its_owners_alone_and_goes_with_him(ledger: Path) -> None:
    bell = listening(ledger)

    assert stat.S_IMODE(beside(ledger).stat().st_mode) == 0o600
    bell.remove()
    bell.remove()

    assert list(ledger.parent.iterdir()) == [ledger]
    ring(ledger)


def test_one_that_a_kill_left_behind_serves_anew(ledger: Path) -> None:
    os.mkfifo(beside(ledger))
    ring(ledger)  # nobody listens: it hangs nowhere

    bell = listening(ledger)
    ring(ledger)

    assert bell.wait(HANGS) is True


@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.write_text("mine"),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(os.devnull),
    ],
)
def test_what_is_in_its_place_is_left_as_it_is_and_told(
    ledger: Path, put: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    path = beside(ledger)
    put(path)
    before = path.lstat()

    with caplog.at_level(logging.WARNING):
        assert listen(str(ledger)) is None
    ring(ledger)

    assert os.path.samestat(path.lstat(), before)
    assert path.lstat().st_size == before.st_size
    assert all(
        file.read_text() in {"", "mine"} for file in ledger.parent.iterdir() if file.is_file()
    )
    assert "What is run by hand begins up to 5 s late" in caplog.text

"""Who enqueues does not wait for the broker, and rings for what is committed."""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from queue import Queue

import attrs
import pytest

from cronhare.application.bell import BackgroundBell
from cronhare.domain.execution import Execution
from tests.unit.executions import execution

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


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

"""Who enqueues does not wait for the broker, and rings for what is committed."""

import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from queue import Queue

import attrs

from cronhare.application.bell import BackgroundBell
from cronhare.domain.execution import Execution
from tests.unit.executions import execution

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@attrs.define
class Door:
    """A bell that is heard, once it is let."""

    heard: Queue[list[int]] = attrs.field(factory=Queue[list[int]])
    open: threading.Event = attrs.field(factory=threading.Event)
    head_start: timedelta = timedelta(seconds=3)

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:
        assert now == NOON
        assert self.open.wait(10)
        self.heard.put([each.id for each in executions])


@attrs.define
class Ledger:
    """What is committed, after so many looks in vain."""

    looks: int = 0
    committed: dict[int, Execution] = attrs.field(factory=dict[int, Execution])
    seen_after: int = 0

    def find(self, ids: Collection[int]) -> Mapping[int, Execution]:
        self.looks += 1
        if self.looks <= self.seen_after:
            return {}
        return {id_: self.committed[id_] for id_ in ids if id_ in self.committed}


def bell_of(door: Door, ledger: Ledger | None = None) -> BackgroundBell:
    return BackgroundBell(door, now=lambda: NOON, find=(ledger or Ledger()).find)


def test_nobody_waits_and_what_comes_meanwhile_is_rung_for_together() -> None:
    door = Door()
    bell = bell_of(door)

    bell.ring([execution(id=1)], now=NOON)
    while not bell._asked.empty():
        pass
    bell.ring([execution(id=2)], now=NOON)
    bell.ring([execution(id=3)], now=NOON)
    door.open.set()

    assert door.heard.get(timeout=10) == [1]
    assert door.heard.get(timeout=10) == [2, 3]


def test_the_end_of_a_program_rings_for_what_waits() -> None:
    door = Door()
    door.open.set()
    bell = bell_of(door)

    bell.ring([execution(id=1)], now=NOON)
    bell.close()

    assert door.heard.get_nowait() == [1]


def test_what_is_about_to_be_committed_is_looked_for_until_it_is() -> None:
    door, ledger = Door(), Ledger(seen_after=2, committed={7: execution(id=7)})
    door.open.set()

    bell_of(door, ledger).ring_once_there([7])

    assert door.heard.get(timeout=10) == [7]
    assert ledger.looks == 3


def test_what_was_rolled_back_is_not_rung_for() -> None:
    door, ledger = Door(), Ledger(committed={8: execution(id=8)})
    door.open.set()
    bell = bell_of(door, ledger)

    bell.ring_once_there([7])
    bell.ring_once_there([8])

    assert door.heard.get(timeout=10) == [8]


def test_a_ledger_that_is_away_does_not_end_the_thread() -> None:
    class Away(Ledger):
        def find(self, ids: Collection[int]) -> Mapping[int, Execution]:
            raise OSError(f"{ids}: the ledger is away")

    door = Door()
    door.open.set()
    bell = bell_of(door, Away())

    bell.ring_once_there([7])
    while not bell._asked.empty():
        pass
    bell.ring([execution(id=1)], now=NOON)

    assert door.heard.get(timeout=10) == [1]

"""A ledger in memory that can be away: deaf, or heard and not answered."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import attrs

from cronhare.adapters.memory.attempts import MemoryAttemptStore
from cronhare.adapters.memory.claims import MemoryClaimStore
from cronhare.adapters.memory.ledger import MemoryLedger
from cronhare.adapters.memory.records import MemoryRecords
from cronhare.domain.execution import Execution, State
from cronhare.domain.failures import Failure
from cronhare.domain.messages import TaskMessage
from cronhare.ports.attempts import Finish, Refused, Renewal, Start, Superseded
from cronhare.ports.ledger import LedgerUnavailable
from cronhare.ports.records import Archived, Retention, Unproven
from cronhare.ports.runner import Written


@attrs.define
class Outage:
    """Which methods get no answer, for how many calls, and whether the calls take place.

    *takes* is what happens while a method is waited for in vain: time passes, say. *slow* is what
    happens once while a method is waited for that answers in the end.
    """

    calls: dict[str, int] = attrs.field(factory=dict[str, int])
    takes: dict[str, Callable[[], object]] = attrs.field(factory=dict[str, Callable[[], object]])
    heard: bool = False
    slow: dict[str, Callable[[], object]] = attrs.field(factory=dict[str, Callable[[], object]])

    def begin(self, method: str, *, calls: int = 1_000_000, heard: bool = False) -> None:
        """Leave the next *calls* of a method without an answer."""
        self.calls[method] = calls
        self.heard = heard

    def end(self) -> None:
        """Answer again."""
        self.calls.clear()

    @contextmanager
    def over(self, method: str) -> Iterator[None]:
        """Raise, before or after the call took place."""
        left = self.calls.get(method, 0)
        if not left:
            self.slow.pop(method, lambda: None)()
            yield
            return
        self.calls[method] = left - 1
        self.takes.get(method, lambda: None)()
        if self.heard:
            yield
        raise LedgerUnavailable("the ledger is away")


class AttemptsWithOutages(MemoryAttemptStore):
    """Attempts in memory, now and then out of reach."""

    def __init__(self, ledger: MemoryLedger, outage: Outage) -> None:
        super().__init__(ledger)
        self._outage = outage

    def start(
        self, wishes: Sequence[Start], *, now: datetime, node: str, lease: timedelta
    ) -> Sequence[Execution | Refused]:
        with self._outage.over("start"):
            return super().start(wishes, now=now, node=node, lease=lease)

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[State | Superseded]:
        with self._outage.over("finish"):
            return super().finish(finishes, now=now, node=node)

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        with self._outage.over("renew"):
            return super().renew(execution_ids, now=now, node=node, lease=lease)

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused:
        with self._outage.over("adopt"):
            return super().adopt(message, key=key, queue=queue, deaths=deaths, now=now, node=node)

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        with self._outage.over("keep_written"):
            super().keep_written(written, now=now, node=node)


class ClaimsWithOutages(MemoryClaimStore):
    """Claims in memory, now and then out of reach."""

    def __init__(self, ledger: MemoryLedger, outage: Outage) -> None:
        super().__init__(ledger)
        self._outage = outage

    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        with self._outage.over("next_due"):
            return super().next_due(after=after)

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        with self._outage.over("mark_published"):
            super().mark_published(executions, now=now)

    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        with self._outage.over("doubt"):
            return super().doubt(since=since, now=now, after=after, limit=limit)

    def lapsed(
        self, *, now: datetime, limit: int, gone: Collection[str] = ()
    ) -> Sequence[Execution]:
        with self._outage.over("lapsed"):
            return super().lapsed(now=now, limit=limit, gone=gone)


class RecordsWithOutages(MemoryRecords):
    """Records in memory, now and then out of reach."""

    def __init__(self, ledger: MemoryLedger, outage: Outage) -> None:
        super().__init__(ledger)
        self._outage = outage

    def keep_failure(
        self, failure: Failure, *, now: datetime, node: str
    ) -> Archived | Unproven | None:
        with self._outage.over("keep_failure"):
            return super().keep_failure(failure, now=now, node=node)

    def clean_up(
        self, *, now: datetime, retention: Retention, between: Callable[[], None] = lambda: None
    ) -> int:
        with self._outage.over("clean_up"):
            return super().clean_up(now=now, retention=retention, between=between)

"""A ledger that can be away: deaf, or heard and not answered."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial

import attrs
from sqlalchemy import Engine

from cronhare.adapters.sql.attempts import SqlAttemptStore
from cronhare.adapters.sql.claims.store import SqlClaimStore
from cronhare.adapters.sql.records.store import SqlRecords
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived, Failure, Unproven
from cronhare.domain.lifecycle.retry_limits import CatchUp, Limited
from cronhare.domain.messages import AttemptRef, TaskMessage
from cronhare.domain.retries.limits import BudgetPolicy
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.schedules.planning import Planner
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import (
    Busy,
    Finish,
    Recorded,
    Refused,
    Renewal,
    StartAnswer,
    StartRequest,
)
from cronhare.ports.claims import Batch
from cronhare.ports.records import Retention
from cronhare.ports.runner import Written
from cronhare.ports.system import ClockPort

#: What a rule says of ends.
REFUSED = "it ended (somehow), but that is refused: nobody writes this"


@attrs.define
class Outage:
    """Which methods get no answer, for how many calls, and whether the calls take place.

    *takes* is what happens while a method is waited for in vain: time passes, say. *slow* is what
    happens once while a method is waited for that answers in the end. *held* are executions whose
    rows somebody else holds, and *held_schedules* those of which nobody can insert any. All
    whose ends are *refused* are set apart.
    """

    calls: dict[str, int] = attrs.field(factory=dict[str, int])
    takes: dict[str, Callable[[], object]] = attrs.field(factory=dict[str, Callable[[], object]])
    heard: bool = False
    slow: dict[str, Callable[[], object]] = attrs.field(factory=dict[str, Callable[[], object]])
    held: set[int] = attrs.field(factory=set[int])
    refused: bool = False
    held_schedules: set[int] = attrs.field(factory=set[int])

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
        raise LedgerUnavailable("the ledger is away", changed_nothing=not self.heard)


class AttemptsWithOutages(SqlAttemptStore):
    """Attempts, now and then out of reach."""

    def __init__(self, engine: Engine, clock: ClockPort, outage: Outage) -> None:
        super().__init__(engine, clock)
        self._outage = outage
        self.asked_to_start = 0

    def start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None = None,
    ) -> Sequence[StartAnswer]:
        self.asked_to_start += len(requests)
        free = [request for request in requests if request.execution_id not in self._outage.held]
        with self._outage.over("start"):
            asked = super().start(free, now=now, node=node, lease=lease, catch_up=catch_up)
            answers = iter(asked)
        return [next(answers) if request in free else Busy() for request in requests]

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[Recorded | Busy]:
        free = [finish for finish in finishes if finish.execution.id not in self._outage.held]
        with self._outage.over("finish"):
            answers = iter(self._ended(free, partial(super().finish, now=now, node=node)))
        return [next(answers) if finish in free else Busy() for finish in finishes]

    def give_up(self, finishes: Sequence[Finish], *, now: datetime) -> Sequence[Recorded | Busy]:
        free = [finish for finish in finishes if finish.execution.id not in self._outage.held]
        with self._outage.over("give_up"):
            answers = iter(self._ended(free, partial(super().give_up, now=now)))
        return [next(answers) if finish in free else Busy() for finish in finishes]

    def _ended(
        self,
        finishes: Sequence[Finish],
        record: Callable[[Sequence[Finish]], Sequence[Recorded | Busy]],
    ) -> Sequence[Recorded | Busy]:
        """Record ends; those that are refused are quarantined, as a real ledger does."""
        if not self._outage.refused:
            return record(finishes)
        record([attrs.evolve(each, verdict=Quarantine(REFUSED)) for each in finishes])
        return [Limited(Quarantine(REFUSED))] * len(finishes)

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        busy = self._outage.held & set(execution_ids)
        with self._outage.over("renew"):
            free = set(execution_ids) - busy
            renewal = super().renew(free, now=now, node=node, lease=lease)
        return attrs.evolve(renewal, busy=frozenset(busy))

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        with self._outage.over("adopt"):
            if message.scheduler_id in self._outage.held_schedules:
                return Busy()
            return super().adopt(message, key=key, queue=queue, deaths=deaths, now=now, node=node)

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        with self._outage.over("keep_written"):
            super().keep_written(written, now=now, node=node)


class ClaimsWithOutages(SqlClaimStore):
    """Claims, now and then out of reach."""

    def __init__(
        self, engine: Engine, clock: ClockPort, outage: Outage, late: BudgetPolicy | None
    ) -> None:
        super().__init__(engine, clock, late=late)
        self._outage = outage

    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        with self._outage.over("plan_edited"):
            return super().plan_edited(
                now=now, since=since, limit=limit, node=node, planner=planner
            )

    def now(self) -> datetime:
        if self._outage.calls.get("start"):  # or it would not be the ledger that is away
            raise LedgerUnavailable("the ledger is away")
        return super().now()

    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        with self._outage.over("next_due"):
            return super().next_due(after=after)

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        with self._outage.over("mark_published"):
            super().mark_published(executions, now=now)

    def mark_ends_published(self, ends: Collection[AttemptRef]) -> None:
        with self._outage.over("mark_ends_published"):
            super().mark_ends_published(ends)

    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        with self._outage.over("doubt"):
            return super().doubt(since=since, now=now, after=after, limit=limit)

    def lapsed(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        with self._outage.over("lapsed"):
            return super().lapsed(now=now, limit=limit)

    def run_by(self, nodes: Collection[str], *, limit: int) -> Sequence[Execution]:
        with self._outage.over("run_by"):
            return super().run_by(nodes, limit=limit)


class RecordsWithOutages(SqlRecords):
    """Records, now and then out of reach."""

    def __init__(self, engine: Engine, clock: ClockPort, outage: Outage) -> None:
        super().__init__(engine, clock)
        self._outage = outage

    def keep_failure(
        self, failure: Failure, *, now: datetime, node: str
    ) -> Archived | Unproven | None:
        with self._outage.over("keep_failure"):
            return super().keep_failure(failure, now=now, node=node)

    def clean_up(self, *, now: datetime, retention: Retention) -> int:
        with self._outage.over("clean_up"):
            return super().clean_up(now=now, retention=retention)

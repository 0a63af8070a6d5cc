"""A ledger that can be away: deaf, or heard and not answered."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import attrs
from sqlalchemy import Engine

from cronhare.adapters.sql.attempts import SqlAttemptStore
from cronhare.adapters.sql.claims.store import SqlClaimStore
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.retry_limits import CatchUp, Limited
from cronhare.domain.messages import TaskMessage
from cronhare.domain.retries.limits import BudgetPolicy
from cronhare.domain.retries.retry import Quarantine
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
from cronhare.ports.system import ClockPort

S = TypeVar("S")

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


def may_be_away(store: S, outage: Outage, *methods: str) -> S:
    """Leave these methods of a store without an answer during an *outage*."""
    for name in methods:
        setattr(store, name, _guarded(getattr(store, name), name, outage))
    return store


def _guarded(method: Callable[..., Any], name: str, outage: Outage) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with outage.over(name):
            return method(*args, **kwargs)

    return guarded


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


class ClaimsWithOutages(SqlClaimStore):
    """Claims that are away whenever nothing can be started: or it would not be the ledger."""

    def __init__(
        self, engine: Engine, clock: ClockPort, outage: Outage, late: BudgetPolicy | None
    ) -> None:
        super().__init__(engine, clock, late=late)
        self._outage = outage

    def now(self) -> datetime:
        if self._outage.calls.get("start"):
            raise LedgerUnavailable("the ledger is away")
        return super().now()

"""A ledger that can be away: deaf, or heard and not answered."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import attrs
from sqlalchemy import Engine

from cronhare.adapters.sql.attempts import SqlAttemptStore
from cronhare.adapters.sql.claims.store import SqlClaimStore
from cronhare.domain.execution import Execution
from cronhare.domain.messages import TaskMessage
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
Q = TypeVar("Q", StartRequest, Finish)
A = TypeVar("A")


@attrs.define
class Outage:
    """Which methods get no answer, for how many calls, and whether the calls take place.

    *takes* is what happens while a method is waited for in vain: time passes, say. *slow* is what
    happens once while a method is waited for that answers in the end. *held* are executions whose
    rows somebody else holds, and *held_schedules* those of which nobody can insert any.
    """

    calls: dict[str, int] = attrs.field(factory=dict[str, int])
    takes: dict[str, Callable[[], object]] = attrs.field(factory=dict[str, Callable[[], object]])
    heard: bool = False
    slow: dict[str, Callable[[], object]] = attrs.field(factory=dict[str, Callable[[], object]])
    held: set[int] = attrs.field(factory=set[int])
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

    def start(self, requests: Sequence[StartRequest], **said: Any) -> Sequence[StartAnswer]:  # noqa: ANN401
        self.asked_to_start += len(requests)
        return self._but_held("start", requests, partial(super().start, **said))

    def finish(self, finishes: Sequence[Finish], **said: Any) -> Sequence[Recorded | Busy]:  # noqa: ANN401
        return self._but_held("finish", finishes, partial(super().finish, **said))

    def give_up(self, finishes: Sequence[Finish], **said: Any) -> Sequence[Recorded | Busy]:  # noqa: ANN401
        return self._but_held("give_up", finishes, partial(super().give_up, **said))

    def _but_held(
        self, method: str, asked: Sequence[Q], answer: Callable[[Sequence[Q]], Sequence[A]]
    ) -> Sequence[A | Busy]:
        free = [one for one in asked if _id_of(one) not in self._outage.held]
        with self._outage.over(method):
            answers = iter(answer(free))
        return [next(answers) if one in free else Busy() for one in asked]

    def renew(self, execution_ids: Collection[int], **said: Any) -> Renewal:  # noqa: ANN401
        busy = self._outage.held.intersection(execution_ids)
        with self._outage.over("renew"):
            renewal = super().renew({*execution_ids} - busy, **said)
        return attrs.evolve(renewal, busy=frozenset(busy))

    def adopt(self, message: TaskMessage, **said: Any) -> Execution | Refused | Busy:  # noqa: ANN401
        with self._outage.over("adopt"):
            is_held = message.scheduler_id in self._outage.held_schedules
            return Busy() if is_held else super().adopt(message, **said)


def _id_of(asked: StartRequest | Finish) -> int:
    return asked.execution_id if isinstance(asked, StartRequest) else asked.execution.id


class ClaimsWithOutages(SqlClaimStore):
    """Claims that are away whenever nothing can be started: or it would not be the ledger."""

    def __init__(self, engine: Engine, clock: ClockPort, outage: Outage) -> None:
        super().__init__(engine, clock)
        self._outage = outage

    def now(self) -> datetime:
        if self._outage.calls.get("start"):
            raise LedgerUnavailable("the ledger is away")
        return super().now()

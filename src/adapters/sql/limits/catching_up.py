"""Deferring retries that an outage held up, in the transaction that starts the others.

Lock order: the executions of the batch first, without waiting; then budgets, by their queues, as at
the ends of attempts; then gates, without waiting.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.catching_up import CatchUp, HeldUpRetries
from cronhare.domain.retries.budget import Budget
from cronhare.ports.attempts import Deferred, StartAnswer

from ..dialect import Dialect
from ..mapping.transition_columns import Change
from .table import BUDGETS


class SpreadStarts:
    """The starts of a batch: what may start now, and what is *deferred*.

    One read and one write of budgets for the whole batch; nothing where no retry was held up.
    """

    def __init__(
        self,
        connection: Connection,
        started: Sequence[Change],
        catch_up: CatchUp | None,
        now: datetime,
    ) -> None:
        self._connection = connection
        self._now = now
        self._locked: list[Budget] = []
        self._held_up = HeldUpRetries(catch_up, [before for before, _ in started], now=now)
        waiting: dict[int, Execution] = {}
        if self._held_up:
            self._locked = BUDGETS.lock(connection, self._held_up.queues, now)
            waiting = self._held_up.judge(self._locked)
        self.started = [change for change in started if change[0].id not in waiting]
        self.deferred = [
            (before, waiting[before.id]) for before, _ in started if before.id in waiting
        ]
        self._waiting = waiting

    def answer_of(self, answer: StartAnswer) -> StartAnswer:
        """Give what is answered now in the place of a start."""
        if not isinstance(answer, Execution) or answer.id not in self._waiting:
            return answer
        return Deferred(execution=self._waiting[answer.id], at=self._now)

    def keep(self, dialect: Dialect, *, busy: Collection[int]) -> None:
        """Write what was granted, but to those that are *busy*."""
        if self._held_up:
            self._held_up.give_back(busy)
            BUDGETS.write(self._connection, dialect, self._held_up.budgets, self._locked)

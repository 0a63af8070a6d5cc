"""Holding the ends of a batch against the limits of retries, in the transaction that writes them.

Lock order: the executions of the batch first, without waiting; then budgets, then breakers, each by
their keys; then all else is written. So no two batches wait for each other.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from cronhare.domain.lifecycle.retry_limits import (
    AttemptEnd,
    RetryJudge,
    Ruled,
    queues_asked,
    tasks_asked,
)

from ..dialect import Dialect
from .evidence import SqlEvidence
from .table import BREAKERS, BUDGETS


def rule_on_retries(
    connection: Connection, dialect: Dialect, ends: Sequence[AttemptEnd], *, now: datetime
) -> list[Ruled]:
    """Rule on the ends of attempts, whose executions are locked, and note what was granted.

    One read and one write of each kind of limit for the whole batch; nothing where none is asked.
    """
    queues, tasks = queues_asked(ends), tasks_asked(ends)
    if not queues and not tasks:
        return [Ruled(verdict=end.verdict) for end in ends]
    budgets = BUDGETS.lock(connection, queues, now)
    breakers = BREAKERS.lock(connection, tasks, now)
    judge = RetryJudge(ends, budgets=budgets, breakers=breakers, evidence=SqlEvidence(connection))
    ruled = [judge.rule(end, now=now) for end in ends]
    BUDGETS.write(connection, dialect, judge.budgets, budgets)
    BREAKERS.write(connection, dialect, judge.breakers, breakers)
    return ruled

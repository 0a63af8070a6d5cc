"""Holding the retries of a batch against their limits, in the transaction that ends its attempts.

Lock order: the executions of the batch first, without waiting; then the budgets, by their keys;
then all else is written. So no two batches wait for each other.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, bindparam, insert, select, update

from cronhare.application.logs import say
from cronhare.domain.lifecycle.retry_limits import AttemptEnd, RetryJudge, Ruled, queues_asked
from cronhare.domain.retries.budget import Budget

from ..dialect import Dialect
from ..mapping.budget_rows import budget_of, budget_values
from ..schema.tables import FOUND_BY_KEY, budgets

log = logging.getLogger(__name__)

_LOCKED: Final = (
    select(budgets)
    .where(budgets.c.queue.in_(bindparam("queues", expanding=True)))
    .order_by(budgets.c.queue)
    .with_for_update()
    .with_hint(budgets, FOUND_BY_KEY, "mysql")
)
_UPDATE: Final = (
    update(budgets)
    .where(budgets.c.queue == bindparam("asked_queue"))
    .values(
        {
            name: bindparam(name, type_=budgets.c[name].type)
            for name in ("most", "window_ms", "granted", "spent_since", "last_at")
        }
    )
)
_INSERT: Final = insert(budgets)


def rule_on_retries(
    connection: Connection, dialect: Dialect, ends: Sequence[AttemptEnd], *, now: datetime
) -> list[Ruled]:
    """Rule on the ends of attempts, whose executions are locked, and note what was granted.

    One read and one write for the retries of the whole batch; nothing for a batch without any.
    """
    queues = queues_asked(ends)
    if not queues:
        return [Ruled(verdict=end.verdict) for end in ends]
    known = _locked(connection, queues, now)
    judge = RetryJudge(known)
    ruled = [judge.rule(end, now=now) for end in ends]
    _write(connection, dialect, judge.budgets, known)
    return ruled


def _locked(connection: Connection, queues: Sequence[str], now: datetime) -> list[Budget]:
    """Read the budgets of queues, and lock them until the transaction's end."""
    found = []
    for row in connection.execute(_LOCKED, {"queues": queues}):
        budget, problem = budget_of(row, now=now)
        if problem is not None:
            text = f"A row was broken, and its budget begins anew: {problem}"
            say(log, logging.WARNING, "budget.broken", text)
        found.append(budget)
    return found


def _write(
    connection: Connection, dialect: Dialect, after: Sequence[Budget], before: Sequence[Budget]
) -> None:
    known = {budget.queue: budget for budget in before}
    new = [each for each in after if each.queue not in known]
    changed = [each for each in after if each.queue in known and each != known[each.queue]]
    if changed:
        rows = [{"asked_queue": each.queue, **budget_values(each)} for each in changed]
        dialect.update_many(connection, _UPDATE, rows)
    if new:
        # Two that insert the same row meet: the later one is repeated, and finds it.
        connection.execute(_INSERT, [{"queue": each.queue, **budget_values(each)} for each in new])

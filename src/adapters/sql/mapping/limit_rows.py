"""Retry budgets and circuit breakers in their rows."""

from datetime import datetime, timedelta
from typing import Any, Final

from cronhare.domain.retries.breaker import LONGEST, Breaker
from cronhare.domain.retries.budget import LARGEST, LONGEST_DEFERRAL, LONGEST_WINDOW, Budget

from ..schema.tables import breakers, budgets
from ..schema.types import milliseconds
from .counts import Counts, read_counts, write_counts
from .own_rows import BrokenRow, OwnTable, whole

_MILLISECOND: Final = timedelta(milliseconds=1)
BUDGET: Final = OwnTable(
    budgets,
    most=whole(1, LARGEST),
    window_ms=whole(1, LONGEST_WINDOW // _MILLISECOND),
)
BREAKER: Final = OwnTable(breakers, window_ms=whole(1, LONGEST // _MILLISECOND))


def budget_values(budget: Budget) -> dict[str, Any]:
    """Give the columns of a budget, but for its queue."""
    return {
        "most": budget.most,
        "window_ms": milliseconds(budget.window),
        "granted": write_counts(budget.grants),
        "spent_since": budget.spent_since,
        "last_at": budget.granted_at,
    }


def budget_of(row: Any) -> Budget:  # noqa: ANN401 - a row
    """Read a budget.

    Raises:
        BrokenRow: it does not fit.
    """
    read = BUDGET.read(row)
    return Budget(
        queue=read.queue,
        most=read.most,
        window=read.window_ms * _MILLISECOND,
        grants=_counts(BUDGET, row, "granted"),
        spent_since=read.spent_since,
        granted_at=read.last_at,
    )


def budget_is_ahead(budget: Budget, now: datetime) -> bool:
    """Tell whether a clock was so far ahead that it would hold back what is due for long."""
    last = now + LONGEST_DEFERRAL + LONGEST_WINDOW
    return any(at >= last for at, _ in budget.grants)


def breaker_values(breaker: Breaker) -> dict[str, Any]:
    """Give the columns of a breaker, but for its task."""
    return {
        "window_ms": milliseconds(breaker.window),
        "failures": write_counts(breaker.failures),
        "judged_at": breaker.judged_at,
        "next_failures": breaker.next_failures,
        "opened_at": breaker.opened_at,
        "failed": breaker.failed,
        "succeeded": breaker.succeeded,
        "probe_at": breaker.probe_at,
        "probe": breaker.probe,
        "last_at": breaker.last_at,
        "task_name": breaker.name,
    }


def breaker_of(row: Any) -> Breaker:  # noqa: ANN401 - a row
    """Read a breaker.

    Raises:
        BrokenRow: it does not fit.
    """
    read = BREAKER.read(row)
    return Breaker(
        task=read.task,
        name=read.task_name,
        window=read.window_ms * _MILLISECOND,
        last_at=read.last_at,
        failures=_counts(BREAKER, row, "failures"),
        judged_at=read.judged_at,
        next_failures=read.next_failures,
        opened_at=read.opened_at,
        failed=read.failed,
        succeeded=read.succeeded,
        probe_at=read.probe_at,
        probe=read.probe,
    )


def breaker_is_ahead(breaker: Breaker, now: datetime) -> bool:
    """Tell likewise of a breaker."""
    probe_at = breaker.probe_at
    return any(at >= now + LONGEST for at, _ in breaker.failures) or (
        probe_at is not None and probe_at > now + 2 * LONGEST
    )


def _counts(table: OwnTable, row: Any, column: str) -> Counts:  # noqa: ANN401
    try:
        return read_counts(getattr(row, column))
    except (ValueError, OverflowError) as error:
        raise BrokenRow(table, row, f"{column}: {error}") from error

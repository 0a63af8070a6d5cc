"""Retry budgets and circuit breakers in their rows."""

from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from cronhare.domain.retries.breaker import LONGEST, Breaker
from cronhare.domain.retries.budget import LARGEST, LONGEST_DEFERRAL, LONGEST_WINDOW, Budget

from ..schema.tables import breakers, budgets
from ..schema.types import milliseconds
from .counts import LARGEST_NUMBER, Counts, read_counts, write_counts
from .counts import LONGEST as LONGEST_COUNTS
from .tolerant_reading import TableReader, text, whole

_MILLISECOND: Final = timedelta(milliseconds=1)
_NUMBERS: Final = range(LARGEST_NUMBER + 1)

_BUDGET: Final = TableReader(
    budgets,
    queue=text(255),
    most=whole(range(1, LARGEST + 1)),
    window_ms=whole(range(1, LONGEST_WINDOW // _MILLISECOND + 1)),
    granted=text(LONGEST_COUNTS, stand_in="[]"),
)
_BREAKER: Final = TableReader(
    breakers,
    task=text(64),
    task_name=text(255, nullable=True),
    window_ms=whole(range(1, LONGEST // _MILLISECOND + 1)),
    failures=text(LONGEST_COUNTS, stand_in="[]"),
    next_failures=whole(_NUMBERS),
    failed=whole(_NUMBERS),
    succeeded=whole(_NUMBERS),
)


def budget_values(budget: Budget) -> dict[str, Any]:
    """Give the columns of a budget, but for its queue."""
    return {
        "most": budget.most,
        "window_ms": milliseconds(budget.window),
        "granted": write_counts(budget.grants),
        "spent_since": budget.spent_since,
        "last_at": budget.granted_at,
    }


def budget_of(row: Any, now: datetime) -> tuple[Budget, str | None]:  # noqa: ANN401 - see RowLike
    """Read a budget, and say what was wrong with its row: what cannot be read was not granted."""
    sound, problem = _BUDGET.read(row)
    grants, fault = _counts(sound.granted, before=now + LONGEST_DEFERRAL + LONGEST_WINDOW)
    budget = Budget(
        queue=sound.queue,
        most=sound.most,
        window=sound.window_ms * _MILLISECOND,
        grants=grants,
        spent_since=sound.spent_since,
        granted_at=sound.last_at,
    )
    return budget, problem or (fault and f"{budgets.name}: granted: {fault}")


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


def breaker_of(row: Any, now: datetime) -> tuple[Breaker, str | None]:  # noqa: ANN401 - see RowLike
    """Read a breaker, and say what was wrong with its row: a broken one is closed."""
    sound, problem = _BREAKER.read(row)
    failures, fault = _counts(sound.failures, before=now + LONGEST)
    breaker = Breaker(
        task=sound.task,
        name=sound.task_name,
        window=sound.window_ms * _MILLISECOND,
        last_at=sound.last_at,
    )
    problem = problem or (fault and f"{breakers.name}: failures: {fault}")
    if problem is None and sound.probe_at is not None and sound.probe_at > now + 2 * LONGEST:
        problem = f"{breakers.name}: probe_at: it is too far away"
    if problem is not None:
        return breaker, problem
    known = attrs.evolve(
        breaker,
        failures=failures,
        judged_at=sound.judged_at,
        next_failures=sound.next_failures,
        opened_at=sound.opened_at,
        failed=sound.failed,
        succeeded=sound.succeeded,
        probe_at=sound.probe_at,
        probe=sound.probe,
    )
    return known, None


def _counts(written: str, *, before: datetime) -> tuple[Counts, str | None]:
    try:
        return read_counts(written, before=before), None
    except ValueError as error:
        return (), str(error)

"""`cronhare failed stats` and `cronhare executions stats`: how many, by day, type or reason."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.texts.moments import say_duration
from cronhare.ports.records import ExecutionFilter
from cronhare.ports.statistics import DAY_AND_TYPE, MOST_GROUPS, OF_FAILURES, WEEK, By

from ..errors import Refusal
from ..options import Asked, Limit, chosen_by
from ..output import Columns, Json, print_rows
from ..times import none_since
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.views.failures import (
        ExecutionCountView,
        FailureCountView,
    )

Grouped = Annotated[
    list[By] | None,
    typer.Option("--by", help="Count by this; may be repeated. By day and type if left out."),
]

#: The original's weekly report looks back so far.
A_WEEK: Final = say_duration(WEEK)

#: What can be counted by, with its column: its heading, and what stands in it.
_COLUMNS: Final[Mapping[By, tuple[str, Any]]] = {
    By.DAY: ("DATE", "date"),
    By.TYPE: ("TYPE", "type"),
    By.TASK: ("TASK", "task"),
    By.SCHEDULE: ("SCHEDULE", "schedule_name"),
    By.QUEUE: ("QUEUE", "queue"),
    By.REASON: ("REASON", lambda counted: (counted.failed_reason or "").partition("\n")[0]),
    By.CLASS: ("CLASS", "error_class"),
}


@chosen_by("schedule", "task", "type", "queue", "since", "until", since=A_WEEK)
def failures(
    asked: Asked, *, by: Grouped = None, limit: Limit = MOST_GROUPS, json: Json = False
) -> None:
    """Count what failed for good in the last week, resolved or not, per day (of UTC) and type.

    `--by reason` is the weekly report.
    """
    container, groups = open_ledger(), _groups(by)
    now = container.queries().now()
    which = asked.filter(FailureFilter, now=now, unresolved=False)
    found = container.statistics().failures(which, by=groups, limit=limit)
    columns: Columns[FailureCountView] = {
        **dict(_COLUMNS[each] for each in groups),
        "FAILED": lambda counted: f"{counted.failed_count:,}",
        "MEAN RETRIES": lambda counted: f"{counted.avg_retries:.2f}",
        "QUARANTINED": lambda counted: f"{counted.quarantined:,}",
        "UNRESOLVED": lambda counted: f"{counted.unresolved:,}",
        "FIRST": "first_at",
        "LAST": "last_at",
    }
    empty = none_since("Nothing failed for good.", which.since, which.until)
    spare = ("FIRST", "MEAN RETRIES", "QUARANTINED")
    print_rows(found, columns, json=json, empty=empty, spare=spare, elastic=("REASON",))


@chosen_by("since", "until", since=A_WEEK)
def executions(
    asked: Asked, *, by: Grouped = None, limit: Limit = MOST_GROUPS, json: Json = False
) -> None:
    """Count the runs that were claimed in the last week, without skipped ones, per day and type.

    It counts what the ledger still has: see the retention.
    """
    groups = _groups(by)
    if wrong := [each.value for each in groups if each in OF_FAILURES]:
        raise Refusal(f"--by {wrong[0]}: only failures have one; see `cronhare failed stats`")
    container = open_ledger()
    which = asked.filter(ExecutionFilter, now=container.queries().now(), limit=limit)
    since, until = which.since, which.until
    assert since is not None, "it was given, or is a week ago"
    found = container.statistics().executions(since=since, until=until, by=groups, limit=limit)
    columns: Columns[ExecutionCountView] = {
        **dict(_COLUMNS[each] for each in groups),
        "TOTAL": lambda counted: f"{counted.total:,}",
        "SUCCEEDED": lambda counted: f"{counted.succeeded:,}",
        "FAILED": lambda counted: f"{counted.failed:,}",
        "RETRIED": lambda counted: f"{counted.retried:,}",
        "RETRY RATE": lambda counted: f"{counted.retry_rate:.1%}",
        "MEAN ATTEMPTS": lambda counted: f"{counted.avg_attempts:.2f}",
    }
    empty, spare = none_since("Nothing was claimed.", since, until), ("MEAN ATTEMPTS", "RETRIED")
    print_rows(found, columns, json=json, empty=empty, spare=spare)


def _groups(by: Sequence[By] | None) -> Sequence[By]:
    return tuple(dict.fromkeys(by)) if by else DAY_AND_TYPE

"""Rows of the archive, as tables: for `failed` and `quarantine`."""

from typing import TYPE_CHECKING

from cronhare.domain.retries.limits import ACTIVATED
from cronhare.domain.texts.words import called_in_full

from .execution_output import show_attempts
from .output import facts, json_line, moment, print_line, printable_lines, state
from .rows import Columns
from .watched import change_line

if TYPE_CHECKING:
    from rich.text import Text

    from cronhare.application.administration.views.failures import FailureView, FailureWithDetails
    from cronhare.application.administration.views.schedules import ScheduleView
    from cronhare.application.administration.views.values import ErrorView

#: Lines of the last output that are shown of each stream; `cronhare logs` has all.
LAST_LINES = 10


def failure_columns(*, with_resolved: bool) -> Columns["FailureView"]:
    """Give the columns of a list."""
    return {
        "ID": "id",
        "SCHEDULE": "schedule_name",
        "TASK": "called",
        "KIND": lambda archived: state(archived.kind),
        "FAILED AT": "failed_at",
        "ATTEMPTS": "attempts",
        "EXECUTION": "execution_id",
        **({"RESOLVED": "resolution"} if with_resolved else {}),
        "REASON": _reason,
    }


def failure_line(archived: "FailureView") -> "Text":
    """Write a failure on one line, as `--watch` tells of it."""
    return change_line(
        archived.id,
        archived.failed_at,
        archived.resolution or archived.kind,
        attempt=archived.attempts,
        schedule=archived.schedule_name,
        rest=f": {_reason(archived)}",
    )


def show_failure(found: "FailureWithDetails") -> None:
    """Print one row of the archive with its attempts, and the end of what the last one wrote."""
    failure, output = found.failure, found.last_output
    facts([*_facts(failure), *_whose(found.schedule)])
    if found.attempts:
        show_attempts(found.attempts)
    if output is None:
        return
    for name, stream in (("stdout", output.stdout), ("stderr", output.stderr)):
        lines = (stream.tail or stream.head).splitlines()[-LAST_LINES:]
        if lines:
            print_line(f"--- attempt {output.attempt}, end of {name}", style="bold")
            print_line(printable_lines("\n".join(lines)))


def _facts(archived: "FailureView") -> list[tuple[str, object]]:
    return [
        ("failure", archived.id),
        ("execution", archived.execution_id),
        ("schedule", f"{archived.schedule_name} (id {archived.scheduler_id})"),
        ("task", called_in_full(archived.task, name=archived.task_name, source=archived.source)),
        ("topic", archived.topic),
        ("key", archived.execution_key),
        ("kind", state(archived.kind)),
        ("queue", archived.queue),
        ("failed at", archived.failed_at),
        ("reason", archived.failed_reason),
        ("crashes", _crashes(archived)),
        ("attempts", archived.attempts),
        ("params", json_line(archived.params)),
        ("options", None if archived.options is None else json_line(archived.options)),
        ("resolved", archived.resolved_at),
        ("resolution", archived.resolution),
        ("note", archived.note or None),
        ("error", None if archived.error is None else _said(archived.error)),
        ("problem", archived.problem),
    ]


def _reason(archived: "FailureView") -> str:
    """Give the first line of what went wrong, which the reason of an open breaker does not say."""
    reason, error = archived.failed_reason, archived.error
    if reason == ACTIVATED and error:
        return f"{error.message.partition(chr(10))[0]} ({reason})"
    return reason.partition("\n")[0]


def _crashes(archived: "FailureView") -> str | None:
    if archived.crash_count is None:
        return None
    return f"{archived.crash_count} from {moment(archived.first_crash_at)} on"


def _whose(schedule: "ScheduleView | None") -> list[tuple[str, object]]:
    if schedule is None:
        return [("now", "the schedule is no more")]
    return [
        ("description", schedule.description),
        ("due", schedule.schedule),
        ("user", schedule.user_id),
        ("group", schedule.group_id),
    ]


def _said(error: "ErrorView") -> str:
    code = f" ({error.code})" if error.code else ""
    stack = f"\n{error.stack}" if error.stack else ""
    return f"{error.message}{code}{stack}"

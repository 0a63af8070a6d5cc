"""Executions, failures, due instants and pauses as people read them; what `--watch` prints."""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from cronhare.application.reports.clock_effects import EffectKind
from cronhare.domain.retries.limits import ACTIVATED
from cronhare.domain.texts.moments import say_due
from cronhare.domain.texts.printable import printable, shortened
from cronhare.domain.texts.words import called_in_full, counted

from .output import (
    Columns,
    Styled,
    facts,
    is_terminal,
    json_line,
    print_json,
    print_line,
    shortened_to,
    table,
    window,
)
from .times import due, moment

if TYPE_CHECKING:
    from cronhare.application.administration.views.executions import AttemptView, ExecutionView
    from cronhare.application.administration.views.failures import FailureView, FailureWithDetails
    from cronhare.application.administration.views.schedules import (
        DueView,
        PauseView,
        ScheduleView,
    )


def say_progress(progress: float | None, text: str | None) -> str | None:
    """Say how far a task is; what is not between 0 and 1 is a count.

    >>> say_progress(0.4, "users"), say_progress(1200, None)
    ('40 % · users', '1200')
    """
    if progress is None:
        return None
    number = f"{progress:.0%}".replace("%", " %") if 0 <= progress <= 1 else f"{progress:.15g}"
    return f"{number} · {text}" if text else number


def say_pause(pause: "PauseView") -> str:
    """Say since when, until when, by whom and why something is or was paused."""
    until = f" until {due(pause.until)}" if pause.until else ""
    by = f" by {pause.by}" if pause.by else ""
    why = f": {pause.reason}" if pause.reason else ""
    return f"since {due(pause.since)}{until}{by}{why}"


#: In few words, for a line of 80 letters.
_SHORT: Final = {
    EffectKind.MOVED: "missing: moved",
    EffectKind.SKIPPED: "missing: skipped",
    EffectKind.FIRST_PASS: "twice: the first",
    EffectKind.SECOND_PASS: "twice: the second",
}


def show_due(found: Sequence["DueView"], timezone: str) -> None:
    """Print when they are, in UTC and in *timezone*, what the clock does, and which do not run."""
    headings, rows = ["UTC", timezone], []
    has_clock, has_skipped = any(each.clock for each in found), any(each.why_not for each in found)
    headings += ["CLOCK"] * has_clock + ["SKIPPED"] * has_skipped
    for each in found:
        seconds = ":%S" if each.local.second else ""
        local = each.local.strftime(f"%a %Y-%m-%d %H:%M{seconds} %Z (%z)")
        clock = ", ".join(f"{effect.meant[-5:]} {_SHORT[effect.kind]}" for effect in each.clock)
        row = [say_due(each.utc) if each.runs else "-", local]
        rows.append(row + [clock] * has_clock + [each.why_not or ""] * has_skipped)
    table(*headings, rows=rows, empty="")


#: Letters of a result that are printed; `--json` has all of it.
LONGEST_RESULT = 2_000


def show_execution(execution: "ExecutionView", attempts: Sequence["AttemptView"]) -> None:
    """Print one execution's facts, and a table of its attempts."""
    result = None if execution.result is None else json_line(execution.result)
    facts(
        [
            ("execution", execution.id),
            ("schedule", f"{execution.schedule_name} (id {execution.scheduler_id})"),
            ("task", _called(execution)),
            ("topic", execution.topic),
            ("key", execution.key),
            ("by", execution.trigger.value),
            ("state", Styled(execution.state)),
            ("waits for", execution.waits_for),
            ("concurrency key", execution.concurrency_key),
            ("due", execution.due_at),
            ("claimed", f"{moment(execution.executed_at)} by {execution.container_id}"),
            ("queue", execution.queue),
            ("published", execution.published_at),
            ("sent again", counted(execution.resends, "time") if execution.resends else None),
            ("sent again at", execution.sent_again_at),
            ("started", execution.started_at),
            ("owner", execution.owner),
            ("lease until", execution.lease_until),
            ("cancel", "requested" if execution.cancel_requested else None),
            ("ended", execution.finished_at),
            ("attempt", execution.attempt),
            ("retries", execution.deaths),
            ("params", json_line(execution.params)),
            ("progress", say_progress(execution.progress, execution.progress_text)),
            ("result", result and shortened(result, LONGEST_RESULT)),  # of a long one both ends
            ("error", execution.last_error),
            ("problem", execution.problem),
        ]
    )
    show_attempts(attempts)


def show_attempts(attempts: Sequence["AttemptView"]) -> None:
    """Print a table of attempts."""
    rows = [_attempt_row(attempt) for attempt in attempts]
    headings = ("ATTEMPT", "STARTED", "ENDING", "EXIT", "NODE", "SECONDS", "PEAK MB", "CPU S")
    table(*headings, rows=rows, empty="It has not been started.")
    for attempt in attempts:
        which = f"attempt {attempt.attempt}"
        if attempt.left_running:
            left = counted(attempt.left_running, "process")
            print_line(f"A{which[1:]} left {left} running, killed when it ended.", style="yellow")
        if attempt.result_problem is not None:
            why = attempt.result_problem
            print_line(f"The result of {which} is not kept: {why}", style="yellow")


def _called(one: "ExecutionView | FailureView") -> str:
    return called_in_full(one.task, name=one.task_name, source=one.source)


def _attempt_row(attempt: "AttemptView") -> tuple[object, ...]:
    exit_ = f"signal {attempt.signal}" if attempt.signal else attempt.exit_code
    seconds, cpu, memory = attempt.run_seconds, attempt.cpu_seconds, attempt.peak_memory_bytes
    return (
        attempt.attempt,
        attempt.started_at,
        Styled(attempt.ending or "running"),
        exit_,
        attempt.node,
        None if seconds is None else f"{seconds:.2f}",
        None if memory is None else f"{memory / 1e6:.1f}",
        None if cpu is None else f"{cpu:.2f}",
    )


Row = TypeVar("Row")

#: Letters of the longest state, and a blank.
_STATE: Final = 12

Watch = Annotated[
    bool, typer.Option("--watch", help="Go on: a line for each that is new or has moved on.")
]


def change_line(
    number: int, at: datetime, stands: str, *, attempt: int | None, schedule: str, rest: str = ""
) -> str:
    """Write one line, which is cut off at the window's width."""
    said = "" if attempt is None else f"#{attempt}"
    before, state = f"{number:>8}  {moment(at)}  ", Styled(stands)
    after = printable(f"{'':{_STATE - len(stands)}}{said:<4} {schedule}{rest}")
    if is_terminal():
        after = shortened_to(after, window() - len(before) - len(state.text))
    return f"{before}{state.drawn()}{after}"


def print_changes(
    looks: Iterable[Sequence[Row]], line_of: Callable[[Row], str], *, json: bool
) -> None:
    """Print a line for each change; as JSON each look at which something has changed is one."""
    for moved in looks:
        lines = [json_line(moved)] if json and moved else [] if json else map(line_of, moved)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()


#: Lines of the last output that are shown of each stream; `cronhare logs` has all.
LAST_LINES = 10


def failure_columns(*, with_resolved: bool) -> Columns["FailureView"]:
    """Give the columns of a list."""
    return {
        "ID": "id",
        "SCHEDULE": "schedule_name",
        "TASK": "called",
        "KIND": lambda archived: Styled(archived.kind),
        "FAILED AT": "failed_at",
        "ATTEMPTS": "attempts",
        "EXECUTION": "execution_id",
        **({"RESOLVED": "resolution"} if with_resolved else {}),
        "REASON": _reason,
    }


def failure_line(archived: "FailureView") -> str:
    """Write a failure on one line, as `--watch` tells of it."""
    return change_line(
        archived.id,
        archived.failed_at,
        archived.resolution or archived.kind,
        attempt=archived.attempts,
        schedule=archived.schedule_name,
        rest=f": {_reason(archived)}",
    )


def show_failure(found: "FailureWithDetails", *, json: bool) -> None:
    """Print one row of the archive with its attempts, and the end of what the last one wrote."""
    if json:
        print_json(found)
        return
    failure, output = found.failure, found.last_output
    facts([*_failure_facts(failure), *_whose(found.schedule)])
    if found.attempts:
        show_attempts(found.attempts)
    if output is None:
        return
    for name, stream in (("stdout", output.stdout), ("stderr", output.stderr)):
        lines = (stream.tail or stream.head).splitlines()[-LAST_LINES:]
        if lines:
            print_line(f"--- attempt {output.attempt}, end of {name}", style="bold")
        for line in lines:
            print_line(line)


def _failure_facts(archived: "FailureView") -> list[tuple[str, object]]:
    said, crashes, error = None, None, archived.error
    if error is not None:
        code, stack = f" ({error.code})" if error.code else "", f"\n{error.stack}"
        said = f"{error.message}{code}{stack if error.stack else ''}"
    if archived.crash_count is not None and archived.first_crash_at is not None:
        crashes = f"{archived.crash_count} from {moment(archived.first_crash_at)} on"
    return [
        ("failure", archived.id),
        ("execution", archived.execution_id),
        ("schedule", f"{archived.schedule_name} (id {archived.scheduler_id})"),
        ("task", _called(archived)),
        ("topic", archived.topic),
        ("key", archived.execution_key),
        ("kind", Styled(archived.kind)),
        ("queue", archived.queue),
        ("failed at", archived.failed_at),
        ("reason", archived.failed_reason),
        ("crashes", crashes),
        ("attempts", archived.attempts),
        (
            "paused",
            archived.paused_after and f"its schedule, after {archived.paused_after} in a row",
        ),
        ("params", json_line(archived.params)),
        ("options", None if archived.options is None else json_line(archived.options)),
        ("resolved", archived.resolved_at),
        ("resolution", archived.resolution),
        ("note", archived.note or None),
        ("error", said),
    ]


def _reason(archived: "FailureView") -> str:
    """Give the first line of what went wrong, which the reason of an open breaker does not say."""
    reason, error = archived.failed_reason, archived.error
    if reason == ACTIVATED and error:
        return f"{error.message.partition(chr(10))[0]} ({reason})"
    return reason.partition("\n")[0]


def _whose(schedule: "ScheduleView | None") -> list[tuple[str, object]]:
    if schedule is None:
        return [("now", "the schedule is no more")]
    return [
        ("description", schedule.description),
        ("due", schedule.schedule),
        ("user", schedule.user_id),
        ("group", schedule.group_id),
    ]

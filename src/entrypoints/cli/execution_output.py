"""An execution and its attempts, as tables: for `executions show`, `explain` and `run --wait`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cronhare.domain.execution import say_progress
from cronhare.domain.texts.printable import shortened
from cronhare.domain.texts.words import called_in_full, counted

from .output import facts, json_line, moment, print_line, state, table

if TYPE_CHECKING:
    from cronhare.application.administration.views.executions import AttemptView, ExecutionView

#: Letters of a result that are printed; `--json` has all of it.
LONGEST_RESULT = 2_000


def show_execution(execution: "ExecutionView") -> None:
    """Print one execution's facts."""
    claimed = f"{moment(execution.executed_at)} by {execution.container_id}"
    facts(
        [
            ("execution", execution.id),
            ("schedule", f"{execution.schedule_name} (id {execution.scheduler_id})"),
            ("task", _said_task(execution)),
            ("topic", execution.topic),
            ("key", execution.key),
            ("by", execution.trigger.value),
            ("state", state(execution.state)),
            ("waits for", execution.waits_for),
            ("concurrency key", execution.concurrency_key),
            ("due", execution.due_at),
            ("claimed", claimed),
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
            ("result", _said_result(execution)),
            ("error", execution.last_error),
            ("problem", execution.problem),
        ]
    )


def show_attempts(attempts: Sequence["AttemptView"]) -> None:
    """Print a table of attempts."""
    table(
        "ATTEMPT",
        "STARTED",
        "ENDING",
        "EXIT",
        "NODE",
        "SECONDS",
        "PEAK MB",
        "CPU S",
        rows=[_attempt_row(attempt) for attempt in attempts],
        empty="It has not been started.",
    )
    for attempt in attempts:
        if attempt.left_running:
            left = counted(attempt.left_running, "process")
            text = f"Attempt {attempt.attempt} left {left} running, killed when it ended."
            print_line(text, style="yellow")
        if attempt.result_problem is not None:
            text = f"The result of attempt {attempt.attempt} is not kept: {attempt.result_problem}"
            print_line(text, style="yellow")


def _said_task(execution: "ExecutionView") -> str:
    return called_in_full(execution.task, name=execution.task_name, source=execution.source)


def _said_result(execution: "ExecutionView") -> str | None:
    """Write a result on one line; of a long one both ends."""
    if execution.result is None:
        return None
    return shortened(json_line(execution.result), LONGEST_RESULT)


def _attempt_row(attempt: "AttemptView") -> tuple[object, ...]:
    seconds = None if attempt.run_seconds is None else f"{attempt.run_seconds:.2f}"
    exit_ = f"signal {attempt.signal}" if attempt.signal else attempt.exit_code
    memory = attempt.peak_memory_bytes
    peak = None if memory is None else f"{memory / 1e6:.1f}"
    cpu = None if attempt.cpu_seconds is None else f"{attempt.cpu_seconds:.2f}"
    ending = state(attempt.ending or "running")
    return (attempt.attempt, attempt.started_at, ending, exit_, attempt.node, seconds, peak, cpu)

"""`cronhare executions list | show | cancel`, `cronhare run` and `cronhare explain`."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from cronhare.application.administration.views.executions import AttemptView, ExecutionView
from cronhare.domain.cron import find_zone
from cronhare.domain.execution import REPLAYABLE, UNFINISHED, State
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.schedules.keys import Trigger
from cronhare.domain.texts.moments import in_zone
from cronhare.domain.texts.printable import shortened
from cronhare.domain.texts.words import called_in_full, counted
from cronhare.ports.records import ExecutionFilter

from ...node_identity import this_actor
from ..errors import Refusal, Status
from ..options import (
    EXECUTIONS,
    MOST_LINES,
    Asked,
    Limit,
    ScheduleName,
    Watch,
    chosen_by,
    number,
    one_of,
    runs,
)
from ..output import (
    Columns,
    Json,
    Styled,
    answer,
    change_line,
    facts,
    json_line,
    print_beside,
    print_changes,
    print_json,
    print_line,
    print_rows,
    table,
)
from ..times import due, moment, none_since, read_time, say_took
from ..wiring import open_ledger, said_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.reading.queries import Queries


Id = Annotated[int, number("The execution's number.", EXECUTIONS)]


@chosen_by("schedule", "task", "states", "since", "until")
def list_(asked: Asked, *, limit: Limit = 20, watch: Watch = False, json: Json = False) -> None:
    """List executions, newest first; with --watch the newest last, until Ctrl-C.

    It is about when they were claimed. With --watch and --json each look at which something has
    changed is one line.
    """
    queries = open_ledger().queries()
    which = asked.filter(ExecutionFilter, now=queries.now(), limit=limit)
    if watch:
        print_changes(queries.watch(which, pause=time.sleep), _change, json=json)
        return
    found = queries.executions(which)
    columns: Columns[ExecutionView] = {
        "ID": "id",
        "SCHEDULE": "schedule_name",
        "TASK": "called",
        "DUE": "due_at",
        "STATE": _state,
        "ATTEMPT": "attempt",
        "ENDED": "finished_at",
        "TOOK": _took,
        "ERROR": lambda execution: _short(execution.last_error),
    }
    empty, spare = (
        none_since("No executions.", which.since, which.until),
        ("TASK", "ATTEMPT", "ENDED"),
    )
    print_rows(found, columns, json=json, empty=empty, spare=spare, elastic=("ERROR",))


def _change(execution: ExecutionView) -> str:
    return change_line(
        execution.id,
        execution.due_at,
        execution.state,
        attempt=execution.attempt if execution.started_at else None,
        schedule=f"{execution.schedule_name}{_why(execution)}",
    )


def _why(execution: ExecutionView) -> str:
    return " (backfill)" if execution.trigger is Trigger.BACKFILL else ""


def show(execution_id: Id, *, json: Json = False) -> None:
    """Show one execution with its attempts: who runs it, or what it waits for.

    `cronhare explain ID` says why it is where it is, and what to look at.
    """
    found = open_ledger().queries().execution(execution_id)
    if json:
        print_json(found)
    else:
        show_execution(found.execution, found.attempts)


@chosen_by("schedule")
def cancel(
    asked: Asked, ids: Annotated[list[int] | None, number("Their numbers.", EXECUTIONS)] = None
) -> None:
    """Ask for the end of executions, whether they wait or run.

    With --schedule of all that have not ended, 10,000 at most.
    """
    schedule = asked.values["schedule"]
    if bool(ids) == (schedule is not None):
        raise Refusal("say which: numbers from `cronhare executions list`, or --schedule")
    container = open_ledger()
    administrator = container.administrator()
    if schedule is not None:
        which = ExecutionFilter(schedule=schedule, states=UNFINISHED, limit=MOST_LINES)
        ids = [execution.id for execution in container.queries().executions(which)]
    if not ids:
        print_line(f"All executions of {schedule} have ended.")
    for id_ in ids or ():
        became = administrator.cancel(id_, actor=this_actor())
        texts = {
            State.CANCELLED: "is cancelled",
            State.RUNNING: "is running; its worker was asked to stop it",
        }
        if became in REPLAYABLE:
            texts[became] = f"has ended already: {became}. Replays of many failures leave it out"
        print_line(f"Execution {id_} {texts.get(became, f'has ended already: {became}')}.")


def _state(execution: ExecutionView) -> Styled:
    progress = say_progress(execution.progress, None) if execution.state is State.RUNNING else None
    why = _why(execution)
    return Styled(execution.state, f"{why} {progress}" if progress else why)


def _took(execution: ExecutionView) -> str | None:
    if execution.started_at is None or execution.finished_at is None:
        return None
    return say_took(execution.finished_at - execution.started_at)


def _short(text: str | None) -> str:
    line = (text or "").partition("\n")[0]
    return line if len(line) <= 60 else f"{line[:57]}..."  # noqa: PLR2004 - a table's column


def run(
    name: ScheduleName,
    *,
    params: Annotated[str | None, typer.Option(help="JSON instead of the schedule's own.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end.")] = False,
    json: Json = False,
) -> None:
    """Run a schedule now; its next due instant does not move.

    With --wait the exit status is 0 if the run succeeded, and 4 if it did not.
    """
    container = open_ledger()
    now = container.ledger_time().now()
    checked = None if params is None else _json(params)
    began = container.administrator().run_now(name, params=checked, actor=this_actor())
    follow = f"Follow it: cronhare executions show {began.id}"
    ledger = f"Ledger: {said_ledger(container.settings())}"
    text = f"Execution {began.id} ({began.key}) is on its way. {follow}"
    if wait:
        # First, as the wait may be given up.
        for line in (f"{text}. Ctrl-C ends the wait, and not the run.", ledger):
            print_beside(line, json=json)
        raise typer.Exit(_wait(container.queries(), began.id, json=json))
    answer(ExecutionView.of(began, now=now), text, ledger, json=json)
    if not json and container.queries().schedule(name).status is False:
        print_line(f"Schedule {name} is disabled: it runs this once, and at no time of its own.")


def _wait(queries: "Queries", execution_id: int, *, json: bool) -> Status:
    def print_silence(execution: ExecutionView) -> None:
        silence = "nobody has taken it up yet. Why, says `cronhare doctor`."
        print_beside(f"Execution {execution.id} is {execution.state}: {silence}", json=True)

    found = queries.wait_for_end(execution_id, pause=time.sleep, on_silence=print_silence)
    if json:
        print_json(found.execution)
    else:
        show_execution(found.execution, found.attempts)
    return Status.DONE if found.execution.state is State.SUCCEEDED else Status.RUN_FAILED


def _json(text: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refusal(f"--params is not JSON: {error}") from error


What = Annotated[
    str, one_of("A schedule's name, or the number of an execution.", runs, metavar="NAME|ID")
]

AT: Final = (
    "With a schedule's name: an ISO date-time, or a time of the day, which is the last one: "
    "08:00Z. Without an offset it is in the schedule's zone. Its last due instant by default."
)


def explain(
    what: What,
    *,
    at: Annotated[str | None, typer.Option("--at", help=AT, show_default=False)] = None,
    json: Json = False,
) -> None:
    """Say why a schedule ran at an instant, or did not; or why an execution is where it is.

    A number is an execution's, as `cronhare executions list` and the logs have it; a schedule
    whose name is a number needs --at.
    """
    container = open_ledger()
    explanations, queries = container.explanations(), container.queries()
    if at is not None:
        zone = find_zone(queries.schedule(what).timezone or "UTC")
        instant = read_time(at, zone, now=queries.now(), towards=-1)
        found = explanations.of_instant(what, instant)
    elif what.isascii() and what.isdigit():
        found = explanations.of_execution(_execution_id(what))
    else:
        found = explanations.of_instant(what, None)
    if json:
        print_json(found)
        return
    there = in_zone(found.instant, find_zone(found.timezone))
    print_line(f"{found.schedule_name} at {due(found.instant)} ({there:%H:%M %Z})")
    print_line(found.answer, style="bold")
    for reason in found.because:
        print_line(reason, indent=2)
    if found.execution is not None:
        print_line(f"Execution {found.execution.id}, key {found.execution.key}.", indent=2)
    if found.attempts:
        show_attempts(found.attempts)


def _execution_id(text: str) -> int:
    """Read a number of any length; 0, which no execution has, for one that is too large."""
    id_ = int(text) if len(text) <= len(str(LARGEST_ID)) else 0
    return id_ if id_ <= LARGEST_ID else 0


#: Letters of a result that are printed; `--json` has all of it.
LONGEST_RESULT = 2_000


def show_execution(execution: ExecutionView, attempts: Sequence[AttemptView]) -> None:
    called = called_in_full(execution.task, name=execution.task_name, source=execution.source)
    result = None if execution.result is None else json_line(execution.result)
    facts(
        [
            ("execution", execution.id),
            ("schedule", f"{execution.schedule_name} (id {execution.scheduler_id})"),
            ("task", called),
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


def show_attempts(attempts: Sequence[AttemptView]) -> None:
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


def _attempt_row(attempt: AttemptView) -> tuple[object, ...]:
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


def say_progress(progress: float | None, text: str | None) -> str | None:
    """Say how far a task is; what is not between 0 and 1 is a count.

    >>> say_progress(0.4, "users"), say_progress(1200, None)
    ('40 % · users', '1200')
    """
    if progress is None:
        return None
    number = f"{progress:.0%}".replace("%", " %") if 0 <= progress <= 1 else f"{progress:.15g}"
    return f"{number} · {text}" if text else number

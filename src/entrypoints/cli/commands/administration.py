"""`cronhare schedules | queues | run | explain | db upgrade`."""

import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from cronhare.adapters.sql import upgrade
from cronhare.adapters.sql.dialects.sqlite.file import is_there
from cronhare.application.administration.queries import Queries
from cronhare.application.administration.views import ExecutionView, ScheduleView
from cronhare.domain.addresses import LedgerFile
from cronhare.domain.cron import find_zone
from cronhare.domain.execution import State
from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.domain.texts.listing import listed
from cronhare.domain.texts.moments import say_minute

from ..errors import Refusal, Status
from ..output import Json, print_json, print_line, state, table
from ..wiring import open_ledger, said_ledger, wire
from .executions import show_attempts, show_execution
from .times import read_time

db = typer.Typer(help="The ledger's schema.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="The schedule's name.", show_default=False)]
What = Annotated[
    str,
    typer.Argument(
        metavar="NAME|ID",
        help="A schedule's name, or the number of an execution.",
        show_default=False,
    ),
]

AT: Final = (
    "With a schedule's name: an ISO date-time, or a time of today: 08:00Z; without an offset in "
    "the schedule's zone. Its last due instant by default."
)


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(schedules)
    app.command()(queues)
    app.command()(run)
    app.command()(explain)


def schedules(*, json: Json = False) -> None:
    """List the schedules: when each ran last, how that ended, and when it is due next."""
    found = open_ledger().queries().schedules()
    if json:
        print_json(found)
        return
    table(
        "NAME",
        "SCHEDULE",
        "ZONE",
        "LAST DUE",
        "LAST STATE",
        "NEXT DUE",
        "STATUS",
        rows=[_row(schedule) for schedule in found],
        empty="No schedules.",
    )
    if unseen := [each for each in found if each.status and not each.planned]:
        which = listed([each.name for each in unseen])
        print_line(
            f"No scheduler has looked at {which} yet: `cronhare up` does, or `cronhare scheduler`"
        )


def queues(*, json: Json = False) -> None:
    """List the task queues: what waits in each for how long, what runs, and who consumes.

    MESSAGES and CONSUMERS are the broker's; without them it is in memory, away, or has no such
    queue: `cronhare doctor` says which.
    """
    found = open_ledger().queries().queues()
    if json:
        print_json(found)
        return
    table(
        "QUEUE",
        "SCHEDULES",
        "WAITING",
        "RETRYING",
        "RUNNING",
        "OLDEST DUE",
        "MESSAGES",
        "CONSUMERS",
        rows=[
            (
                each.queue,
                each.schedules,
                each.waiting,
                each.retrying,
                each.running,
                each.oldest_due_at,
                each.messages,
                each.consumers,
            )
            for each in found
        ],
        empty="No schedule names a queue, and nothing waits in one.",
    )


def run(
    name: Name,
    *,
    params: Annotated[str | None, typer.Option(help="JSON instead of the schedule's own.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end.")] = False,
    json: Json = False,
) -> None:
    """Run a schedule now; its next due instant does not move.

    With --wait the exit status is 0 if the run succeeded, and 4 if it did not.
    """
    container = open_ledger()
    now = container.claims().now()
    checked = None if params is None else _json(params)
    began = container.administrator().run_now(name, params=checked, now=now)
    follow = f"Follow it: cronhare executions show {began.id}"
    ledger = f"Ledger: {said_ledger(container.settings())}"
    text = f"Execution {began.id} ({began.key}) is on its way. {follow}"
    if wait:
        # Beside the output where that is for machines, and before anybody gives up waiting.
        said = f"{text}. Ctrl-C ends the wait, and not the run."
        if json:
            sys.stderr.write(f"{said}\n{ledger}\n")
        else:
            print_line(said)
            print_line(ledger)
        raise typer.Exit(_wait(container.queries(), began.id, json=json))
    if json:
        print_json(ExecutionView.of(began, now=now))
    else:
        print_line(text)
        print_line(ledger)
        if container.queries().schedule(name).status is False:
            print_line(
                f"Schedule {name} is disabled: it runs this once, and at no time of its own."
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
    queries = open_ledger().queries()
    is_an_execution = at is None and what.isascii() and what.isdigit()
    found = (
        queries.explain_execution(_execution_id(what))
        if is_an_execution
        else queries.explain_instant(what, None if at is None else _instant(queries, what, at))
    )
    if json:
        print_json(found)
        return
    local = found.instant.astimezone(find_zone(found.timezone))
    print_line(f"{found.schedule_name} at {say_minute(found.instant)} ({local:%H:%M %Z})")
    print_line(found.answer, style="bold")
    for reason in found.because:
        print_line(f"  {reason}")
    if found.execution is not None:
        print_line(f"  Execution {found.execution.id}, key {found.execution.key}.")
    if found.attempts:
        show_attempts(found.attempts)


def _execution_id(text: str) -> int:
    """Read a number of any length; 0, which no execution has, for one that is too large."""
    id_ = int(text) if len(text) <= len(str(LARGEST_ID)) else 0
    return id_ if id_ <= LARGEST_ID else 0


def _instant(queries: Queries, name: str, at: str) -> datetime:
    zone = find_zone(queries.schedule(name).timezone or "UTC")
    return read_time(at, zone, now=queries.now())


@db.command("upgrade")
def upgrade_schema() -> None:
    """Bring the ledger's schema to this version; what is there stays there."""
    container = wire()
    settings = container.settings()
    file = Path(settings.ledger.path) if isinstance(settings.ledger, LedgerFile) else None
    is_new = file is not None and not is_there(file)
    done = upgrade(container.engine())
    place = said_ledger(settings)
    if is_new:
        print_line(f"Made {place}: a new ledger, upgraded to {done[-1]}.")
    else:
        print_line(f"Upgraded {place} to {', '.join(done)}." if done else f"{place} is up to date.")


def _wait(queries: Queries, execution_id: int, *, json: bool) -> Status:
    found = queries.wait_for_end(execution_id, pause=time.sleep, on_silence=_tell_silence)
    if json:
        print_json(found.execution)
    else:
        show_execution(found.execution)
        show_attempts(found.attempts)
    return Status.DONE if found.execution.state is State.SUCCEEDED else Status.RUN_FAILED


def _tell_silence(execution: ExecutionView) -> None:
    # Beside the output, for whoever pipes that on.
    sys.stderr.write(
        f"Execution {execution.id} is {execution.state}: nobody has taken it up yet. "
        "Why, says `cronhare doctor`.\n"
    )


def _json(text: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refusal(f"--params is not JSON: {error}") from error


def _row(schedule: ScheduleView) -> tuple[object, ...]:
    last = schedule.last_run
    ran = (None, None) if last is None else (last.due_at, state(last.state))
    if schedule.status is None:
        broken = f"broken: {schedule.problem}"
        return (schedule.name, schedule.schedule, None, *ran, None, broken)
    status = state("on" if schedule.status else "off")
    return (
        schedule.name,
        _when(schedule),
        schedule.timezone,
        *ran,
        schedule.next_due_at,
        status,
    )


def _when(schedule: ScheduleView) -> str:
    if schedule.date_time is not None:
        return f"once, {say_minute(schedule.date_time)}"
    # A jobs file has none without times but `on_boot` or `on_start`; the row does not say which.
    return schedule.schedule or ("at boot or start" if schedule.source else "by hand")

"""`cronhare schedules | run | explain | db upgrade`."""

import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cronhare.adapters.sql import upgrade
from cronhare.adapters.sql.dialects.sqlite.file import is_there
from cronhare.application.administration.commands import NotFound
from cronhare.application.administration.explain import explain as explain_instant
from cronhare.domain.addresses import LedgerFile
from cronhare.domain.cron import find_zone
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.listing import listed
from cronhare.domain.moments import say_minute
from cronhare.ports.records import RecordsPort
from cronhare.ports.schedules import StoredSchedule

from ..container import Container
from .executions import show_attempts, show_execution
from .output import Json, print_json, state, table, tell
from .times import read_time
from .trouble import Refusal, Status
from .wiring import open_ledger, said_ledger, wire

db = typer.Typer(help="The ledger's schema.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="The schedule's name.", show_default=False)]

AT = "An ISO date-time, or a time of today: 08:00Z; without an offset in the schedule's zone."

#: Seconds between two looks at a run that is waited for, and after which it is said that it waits.
LOOK_EVERY, SILENT_FOR = 0.2, 5.0


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(schedules)
    app.command()(run)
    app.command()(explain)


def schedules(*, json: Json = False) -> None:
    """List the schedules, and when each is due next."""
    found = open_ledger().schedules().schedules()
    if json:
        print_json(found)
        return
    table(
        "NAME",
        "SCHEDULE",
        "ZONE",
        "NEXT DUE",
        "STATUS",
        rows=[_row(schedule) for schedule in found],
        empty="No schedules.",
    )
    if unseen := [each for each in found if each.draft and each.draft.status and not each.planned]:
        which = listed([each.name for each in unseen])
        tell(f"No scheduler has looked at {which} yet: `cronhare up` does, or `cronhare scheduler`")


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
    execution = container.administrator().run_now(name, params=checked, now=now)
    follow = f"Follow it: cronhare executions show {execution.id}"
    ledger = f"Ledger: {said_ledger(container.settings())}"
    text = f"Execution {execution.id} ({execution.key}) is on its way. {follow}"
    if wait:
        # Beside the output where that is for machines, and before anybody gives up waiting.
        said = f"{text}. Ctrl-C ends the wait, and not the run."
        if json:
            sys.stderr.write(f"{said}\n{ledger}\n")
        else:
            tell(said)
            tell(ledger)
        raise typer.Exit(_wait(container, execution.id, json=json))
    if json:
        print_json(execution)
    else:
        tell(text)
        tell(ledger)
        if _is_off(container.administrator().schedule(name)):
            tell(f"Schedule {name} is disabled: it runs this once, and at no time of its own.")


def explain(
    name: Name,
    *,
    at: Annotated[str, typer.Option("--at", help=AT)],
    json: Json = False,
) -> None:
    """Say why a schedule ran at an instant, or did not."""
    container = open_ledger()
    stored = container.administrator().schedule(name)
    zone = find_zone(stored.draft.timezone if stored.draft else "UTC")
    now = container.claims().now()
    instant = read_time(at, zone, now=now)
    found = explain_instant(stored, instant, records=container.records(), now=now)
    if json:
        print_json(found)
        return
    tell(f"{name} at {say_minute(instant)} ({instant.astimezone(zone):%H:%M %Z})")
    tell(found.answer, style="bold")
    for reason in found.because:
        tell(f"  {reason}")
    if found.execution is not None:
        tell(f"  Execution {found.execution.id}, key {found.execution.key}.")
    if found.attempts:
        show_attempts(found.attempts)


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
        tell(f"Made {place}: a new ledger, upgraded to {done[-1]}.")
    else:
        tell(f"Upgraded {place} to {', '.join(done)}." if done else f"{place} is up to date.")


def _is_off(stored: StoredSchedule) -> bool:
    return stored.draft is not None and not stored.draft.status


def _wait(container: Container, execution_id: int, *, json: bool) -> Status:
    records = container.records()
    execution = _ended(records, execution_id)
    if json:
        print_json(execution)
    else:
        show_execution(execution, now=container.claims().now())
        show_attempts(records.attempts(execution_id))
    return Status.DONE if execution.state is State.SUCCEEDED else Status.RUN_FAILED


def _ended(records: RecordsPort, execution_id: int) -> Execution:
    looks = 0
    while True:
        execution = records.execution(execution_id)
        if execution is None:
            raise NotFound(f"execution {execution_id} was removed while it was waited for")
        if execution.state not in UNFINISHED:
            return execution
        if looks == round(SILENT_FOR / LOOK_EVERY) and execution.state in {
            State.CLAIMED,
            State.PUBLISHED,
        }:
            # Beside the output, for whoever pipes that on.
            sys.stderr.write(
                f"Execution {execution_id} is {execution.state}: nobody has taken it up yet. "
                "Why, says `cronhare doctor`.\n"
            )
        looks += 1
        time.sleep(LOOK_EVERY)


def _json(text: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refusal(f"--params is not JSON: {error}") from error


def _row(stored: StoredSchedule) -> tuple[object, ...]:
    draft = stored.draft
    if draft is None:
        return (stored.name, stored.text, None, None, f"broken: {stored.problem}")
    when = draft.schedule or (f"once, {say_minute(draft.date_time)}" if draft.date_time else None)
    status = state("on" if draft.status else "off")
    return (stored.name, when or _without_time(stored), draft.timezone, stored.next_due_at, status)


def _without_time(stored: StoredSchedule) -> str:
    """A jobs file has none of these without `on_boot` or `on_start`; the row does not say which."""
    return "at boot or start" if stored.source else "by hand"

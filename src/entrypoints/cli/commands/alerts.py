"""`cronhare alerts list | show | test`, `cronhare notify list` and `cronhare events list`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import attrs
import typer

from cronhare.domain.events.events import Event
from cronhare.domain.events.outbox import OutboxRow, OutboxState, say_next_try
from cronhare.domain.events.rules import AlertSeverity, Rule
from cronhare.domain.events.targets import (
    ByApprise,
    ByCommand,
    ByEmail,
    ByListener,
    ByPing,
    ByWebhook,
    EventKind,
    Means,
    Target,
    lacks,
)
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import counted, listed
from cronhare.ports.events import AlertFilter, NotDelivered, NotifierPort

from ...given import Named
from ..errors import Refusal, Status
from ..options import Asked, Limit, chosen_by
from ..output import Columns, Json, Styled, facts, print_beside, print_json, print_line, print_rows
from ..times import moment
from ..wiring import App, Jobs, load_all, named, open_ledger, read_settings, wire_with

if TYPE_CHECKING:
    from cronhare.adapters.jobs.reader import JobsFile
    from cronhare.application.administration.reading.alerts import AlertView, EventView

    from ...settings.settings import Settings


@chosen_by("schedule")
def alerts(
    asked: Asked,
    *,
    rule: Annotated[Rule | None, typer.Option(help="Only those by this rule.")] = None,
    severity: Annotated[
        AlertSeverity | None, typer.Option(help="Only those that are so bad.")
    ] = None,
    cleared: Annotated[
        bool, typer.Option("--cleared", help="Also those that are over since a day at most.")
    ] = False,
    json: Json = False,
) -> None:
    """List the alerts that hold now, since when, and who was told; the newest first.

    Schedulers, workers and `up` judge them once a minute; a target hears of them that has "alert"
    among its events.
    """
    schedule = asked.values["schedule"]
    which = AlertFilter(rule=rule, severity=severity, schedule=schedule, cleared=cleared)
    page = open_ledger().alert_desk().alerts(which)
    columns: Columns[AlertView] = {
        "SEVERITY": "severity",
        "ALERT": "rule",
        "ABOUT": "subject",
        "SINCE": "raised_at",
        **({"OVER": "cleared_at"} if cleared else {}),
        "WHAT": "message",
        "TOLD": _told,
    }
    empty = "No alert is listed." if page.unjudged else "No alert holds."
    if rule or severity or schedule:
        empty = "No alert is like that."
    print_rows(page.alerts, columns, json=json, empty=empty, elastic=("WHAT", "TOLD"))
    if page.unjudged:
        print_beside(f"{page.unjudged}.", json=json)
    elif page.judged_at is not None and not json:
        print_line(f"Judged last at {moment(page.judged_at)}.", style="dim")


def _told(view: "AlertView") -> str:
    said = (
        each.target if each.state == "delivered" else f"{each.target} ({each.state})"
        for each in view.told
    )
    return ", ".join(said) or "nobody"


def show(
    name: Annotated[str, typer.Argument(help="Its rule, as the list has it, or its key.")],
    *,
    json: Json = False,
) -> None:
    """Show alerts in full: all by a rule, or one by its key; also what was over of late.

    `cronhare alerts list --json` has the keys.
    """
    page = open_ledger().alert_desk().alerts(AlertFilter(cleared=True))
    found = [each for each in page.alerts if name in {each.rule, each.key}]
    if not found:
        there = listed(sorted({each.rule for each in page.alerts})) or "none"
        raise Refusal(
            f"there is no alert {echo(name)}; there are: {there}",
            advice="`cronhare alerts list --cleared` has them all.",
        )
    if json:
        print_json(found)
        return
    for number, each in enumerate(found):
        if number:
            print_line("")
        facts(_facts(each))


def _facts(view: "AlertView") -> Iterator[tuple[str, object]]:
    yield "alert", view.title
    yield "key", view.key
    yield "severity", view.severity
    yield "about", view.subject or "the ledger"
    yield "what", view.message
    for name, number in (("value", view.value), ("threshold", view.threshold)):
        yield name, None if number is None else view.measured(number)
    yield "since", view.raised_at
    yield "held last", view.held_at
    yield "over", view.cleared_at
    yield "runbook", view.runbook or "none"
    for told in view.told:
        yield "told", f"{told.target}, not told: {told.why}" if told.why else told.target
    for untold in view.untold:
        yield "not told", f"{untold.target}: {untold.why}"


@attrs.frozen(kw_only=True)
class TriedView:
    """A target that was sent a test; *error* says why it was not told."""

    target: str
    told: bool
    error: str | None


def try_(
    target: Annotated[
        str | None, typer.Argument(help="NAME of a [notify.NAME]; all of the file without it.")
    ] = None,
    *,
    jobs: Jobs = None,
    app: App = None,
    json: Json = False,
) -> None:
    """Send a test message to targets, now and once, and say what became of each.

    It runs here, as this user: a worker may see other hosts, files and variables. The status is 4
    if one was not told.
    """
    settings = read_settings()
    files = files_with_targets(Named(jobs, app), settings)
    found = _targets(files, [target] if target else None)
    if not found:
        there = listed([name for file in files for name in file.subscriptions.names]) or "none"
        unknown = f"no target {echo(target)}; there are: {there}" if target else "no targets"
        what = f"{' and '.join(str(file.path) for file in files)}: {unknown}"
        raise Refusal(what, advice="Add one: [notify.NAME], see docs/alerts.md.")
    import asyncio  # noqa: PLC0415 - a page of help does without

    notifier = wire_with(settings).notifier()
    tried = asyncio.run(_try_all(notifier, found))
    if json:
        print_json(tried)
    for view in () if json else tried:
        if view.told:
            print_line(f"{view.target} was told.")
        else:
            print_line(f"{view.target} was not told: {view.error}", style="red")
    if not all(each.told for each in tried):
        raise typer.Exit(Status.RUN_FAILED)


async def _try_all(
    notifier: NotifierPort, found: Sequence[tuple[str, Target]]
) -> Sequence[TriedView]:
    import asyncio  # noqa: PLC0415 - as above

    try:
        return await asyncio.gather(*(_try(notifier, target, source) for source, target in found))
    finally:
        await notifier.close()


async def _try(notifier: NotifierPort, target: Target, source: str) -> TriedView:
    now, text = datetime.now(UTC), f"This is a test of {target.name}: nothing is wrong"
    said = {"severity": "info", "message": text, "task": None}
    event = Event(
        id=f"test:{uuid4()}",
        kind=EventKind.ALERT,
        schedule="",
        scheduler_id=0,
        at=now,
        data={"rule": "test", "value": 0, "threshold": None, "test": True, "alert": said},
    )
    row = attrs.evolve(OutboxRow.of(event, target.name, source=source, now=now), tries=1)
    try:
        await notifier.notify(target, row)
    except NotDelivered as failure:
        return TriedView(target=target.name, told=False, error=str(failure))
    return TriedView(target=target.name, told=True, error=None)


@attrs.frozen(kw_only=True)
class TargetView:
    """A target of the jobs file; a webhook's address shows its host alone.

    It cannot be told from here for want of what it *lacks*; a worker may have that.
    """

    name: str
    by: str
    tells: str
    events: tuple[str, ...]
    timeout_seconds: float
    lacks: str | None


def targets(*, jobs: Jobs = None, app: App = None, json: Json = False) -> None:
    """List the targets that a jobs file, or an app, names."""
    settings = read_settings()
    has_mail = settings.mail_server is not None
    views = [
        _view(target, lacks(target, has_mail=has_mail))
        for _, target in _targets(files_with_targets(Named(jobs, app), settings))
    ]
    columns: Columns[TargetView] = {
        "TARGET": "name",
        "BY": "by",
        "TELLS": "tells",
        "OF": lambda view: listed(view.events),
        "TIMEOUT S": "timeout_seconds",
        "LACKS": "lacks",
    }
    print_rows(
        views, columns, json=json, empty="Nobody is told of anything.", elastic=("TELLS", "OF")
    )


def files_with_targets(given: Named, settings: "Settings") -> "Sequence[JobsFile]":
    state = "Nobody was told."
    return load_all(named(given, settings, state, how="--jobs jobs.toml"), settings, state=state)


def _targets(
    files: "Sequence[JobsFile]", names: Sequence[str] | None = None
) -> Sequence[tuple[str, Target]]:
    return [
        (file.source, target)
        for file in files
        for name in names or file.subscriptions.names
        if (target := file.subscriptions.target(name)) is not None
    ]


def _view(target: Target, lacking: str | None) -> TargetView:
    by, tells = _said(target.means)
    return TargetView(
        name=target.name,
        by=by,
        tells=tells,
        events=tuple(sorted(each.value for each in target.events)),
        timeout_seconds=target.timeout.total_seconds(),
        lacks=lacking,
    )


def _said(means: Means) -> tuple[str, str]:
    match means:
        case ByWebhook():
            return (
                "webhook",
                f"{means.address}{'' if means.secret or means.lacks else ', unsigned'}",
            )
        case ByEmail():
            return "email", ", ".join(means.to)
        case ByApprise():
            return "apprise", ", ".join(map(str, means.services))
        case ByPing():
            return "ping", str(means.address)
        case ByListener():
            return "python", means.function
        case ByCommand():
            return "command", " ".join(means.command)


@chosen_by("schedule")
def events(
    asked: Asked,
    *,
    states: Annotated[
        list[OutboxState] | None, typer.Option("--state", help="Only those in this state.")
    ] = None,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List events and who is told of them, newest first.

    Only what somebody wants to know is here: `notify` and `on_failure` of the jobs file say so.
    """
    container, schedule = open_ledger(), asked.values["schedule"]
    found = container.alert_desk().events(states=states or (), schedule=schedule, limit=limit)
    now = container.ledger_time().now()
    columns: Columns[EventView] = {
        "EVENT": "event",
        "SCHEDULE": "schedule_name",
        "EXECUTION": "execution_id",
        "AT": lambda event: None if event.state == OutboxState.EXPECTED else event.occurred_at,
        "TARGET": lambda event: event.target.rpartition(":")[2],
        "STATE": lambda event: Styled(event.state),
        "LAST ERROR": partial(_last_error, now=now),
    }
    print_rows(
        found,
        columns,
        json=json,
        empty="No event is like that." if states or schedule else "Nobody was told of anything.",
        spare=("EXECUTION",),
        elastic=("LAST ERROR",),
    )


def _last_error(event: "EventView", *, now: datetime) -> str | None:
    if event.state == OutboxState.EXPECTED:
        return "it is told once the schedule succeeds again"
    error = event.last_error
    if error is None or not event.tries:
        return error
    said = f"{error}; tried {counted(event.tries, 'time')}"
    return f"{said}; {say_next_try(event.next_try_at, now)}" if event.next_try_at else said

"""`cronhare notify list | test`: the targets of a jobs file."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import attrs
import typer

from cronhare.domain.events.events import trial
from cronhare.domain.events.outbox import OutboxRow
from cronhare.domain.events.targets import (
    ByApprise,
    ByCommand,
    ByEmail,
    ByListener,
    ByPing,
    ByWebhook,
    Means,
    Target,
    lacks,
)
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import listed
from cronhare.ports.events import NotDelivered, NotifierPort

from ..errors import Refusal, Status
from ..jobs_files import Jobs, load
from ..output import Json, print_line
from ..rows import Columns, print_rows
from ..wiring import read_settings, wire_with

if TYPE_CHECKING:
    from cronhare.adapters.jobs.reader import JobsFile

    from ...settings.settings import Settings


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


def list_(*, jobs: Jobs = None, json: Json = False) -> None:
    """List the targets that a jobs file names."""
    settings = read_settings()
    file = jobs_file(jobs, settings)
    told = file.subscriptions
    targets = [target for name in told.names if (target := told.target(name)) is not None]
    columns: Columns[TargetView] = {
        "TARGET": "name",
        "BY": "by",
        "TELLS": "tells",
        "OF": lambda view: listed(view.events),
        "TIMEOUT S": "timeout_seconds",
        "LACKS": "lacks",
    }
    has_mail = settings.mail_server is not None
    views = [_view(target, lacks(target, has_mail=has_mail)) for target in targets]
    print_rows(
        views, columns, json=json, empty="Nobody is told of anything.", elastic=("TELLS", "OF")
    )


def try_(
    name: Annotated[str, typer.Argument(help="A target: NAME of a [notify.NAME].")],
    *,
    jobs: Jobs = None,
) -> None:
    """Tell a target of an event that says it is a test, now and once.

    It runs here, as this user: a worker may see other hosts, files and variables.
    """
    import asyncio  # noqa: PLC0415 - a page of help does without

    settings = read_settings()
    file = jobs_file(jobs, settings)
    target = file.subscriptions.target(name)
    if target is None:
        there = listed(file.subscriptions.names) or "none"
        raise Refusal(f"{file.path} has no target {echo(name)}; it has: {there}")
    container = wire_with(settings)
    now = datetime.now(UTC)
    event = OutboxRow.of(trial(name, now=now, id_=str(uuid4())), name, source=file.source, now=now)
    try:
        asyncio.run(_tell(container.notifier(), target, attrs.evolve(event, tries=1)))
    except NotDelivered as failure:
        print_line(f"{name} was not told: {failure}", style="red")
        raise typer.Exit(Status.RUN_FAILED) from failure
    print_line(f"{name} was told.")


async def _tell(notifier: NotifierPort, target: Target, event: OutboxRow) -> None:
    try:
        await notifier.notify(target, event)
    finally:
        await notifier.close()


def jobs_file(jobs: Jobs, settings: "Settings") -> "JobsFile":
    """Read the jobs file whose targets are meant."""
    path = jobs or settings.jobs
    if path is None:
        raise Refusal("no jobs file is named", advice="Name it: --jobs jobs.toml, or CRON_JOBS.")
    return load(path, settings, state="Nobody was told.")


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

"""`cronhare doctor`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from cronhare.adapters.addresses import LedgerFile
from cronhare.application.doctor.finding import DiagnosisView, Finding, Seen, SettingsFacts, grouped
from cronhare.domain.events.targets import Subscriptions
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import Severity

from ... import logs
from ...settings.settings import Settings, SettingsInvalid
from ..errors import Status
from ..output import Json, Styled, print_json, print_line, table
from ..wiring import close_at_exit, faults_of

if TYPE_CHECKING:
    from cronhare.domain.schedules.task import Task

SIGNS = {
    Severity.OK: ("✓", "green"),
    Severity.NOTE: ("·", "cyan"),
    Severity.WARNING: ("!", "yellow"),
    Severity.ERROR: ("✗", "red"),
}


@attrs.frozen
class Jobs:
    """The tasks and targets of the jobs file, None without a file; or its faults."""

    tasks: tuple["Task", ...] | None = None
    subscriptions: Subscriptions = attrs.field(factory=Subscriptions)
    faults: tuple[str, ...] = ()
    version: FileVersion | None = None


def doctor(
    *,
    jobs: Annotated[
        Path | None, typer.Option(help="Hold its tasks against the schedules. [env: CRON_JOBS]")
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Send a message through each delay lane, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Look at settings, database, clock, nodes, broker and queues; change nothing.

    Exit status 0: nothing must be mended (there may be warnings). 2: settings or jobs file are at
    fault. 3: a server cannot be reached, or something must be mended.
    """
    try:
        settings = Settings.read()
    except SettingsInvalid as error:
        _print(_faults("settings", error.faults), json=json)
        raise typer.Exit(Status.WRONG_INPUT) from error
    logs.configure(style=settings.log_format, level=settings.log_level)
    from ...container import Container  # noqa: PLC0415 - settings may be at fault before

    container = Container(settings=settings, queues=settings.queues)
    path = jobs or settings.jobs
    read = _read_jobs(path, settings)
    if faults := _faults("settings", faults_of(container)):
        _print([*faults, *_faults("tasks", read.faults)], json=json)
        raise typer.Exit(Status.WRONG_INPUT)
    close_at_exit(container)
    findings = [
        *_faults("tasks", read.faults),
        *container.doctor().examine(
            Seen(
                settings=_facts(settings),
                queues=settings.queues,
                tasks=read.tasks,
                jobs=None if path is None else str(path),
                file=read.version,
                subscriptions=read.subscriptions,
            ),
            retry_delay=settings.retry_delay,
            probe=probe,
        ),
    ]
    is_healthy = _print(findings, json=json).healthy
    if read.faults:
        raise typer.Exit(Status.WRONG_INPUT)
    raise typer.Exit(Status.DONE if is_healthy else Status.UNREACHABLE)


def _read_jobs(path: Path | None, settings: Settings) -> Jobs:
    if path is None:
        return Jobs()
    from cronhare.adapters.jobs.reader import (  # noqa: PLC0415 - without a file nothing is read
        JobsFileInvalid,
        read_jobs,
    )

    try:
        file = read_jobs(path, policy=settings.policy)
        return Jobs(tasks=file.tasks, subscriptions=file.subscriptions, version=file.version)
    except JobsFileInvalid as error:
        return Jobs(faults=tuple(f"{path}: {fault}" for fault in error.faults))
    except OSError as error:
        return Jobs(faults=(f"{path}: {error.strerror or error}",))


def _faults(subject: str, faults: Iterable[str]) -> Sequence[Finding]:
    cure = (
        "correct it at the place that it names; see docs/reference/settings.md"
        if subject == "settings"
        else "correct the file, or name another one by --jobs or CRON_JOBS"
    )
    return [Finding(Severity.ERROR, subject, fault, cure) for fault in faults]


def _facts(settings: Settings) -> SettingsFacts:
    return SettingsFacts(
        on_one_file=isinstance(settings.ledger, LedgerFile),
        in_memory=settings.in_memory,
        lease=settings.lease,
        deduplicates=settings.message_deduplication,
        quorum=settings.queue_type == "quorum",
        has_mail=settings.mail_server is not None,
        unknown={each.name: each.meant for each in settings.sources.unknown},
    )


def _print(findings: Sequence[Finding], *, json: bool) -> DiagnosisView:
    found = DiagnosisView.of(findings)
    if json:
        print_json(found)
        return found
    told = grouped(findings)
    rows = [(_sign(each.severity), each.subject, each.what) for each in told]
    table("", "SUBJECT", "FINDING", rows=rows, empty="Nothing was looked at.")
    _print_cures(told)
    summary = f"{counted(found.errors, 'error')}, {counted(found.warnings, 'warning')}."
    is_fine = not (found.errors or found.warnings)
    print_line("Nothing is wrong." if is_fine else summary, style="bold")
    return found


def _print_cures(findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.cure:
            print_line("")
            print_line(f"{_sign(finding.severity)} {finding.subject}: {finding.what}")
            print_line(f"  → {finding.cure}", style="bold")
    print_line("")


def _sign(severity: Severity) -> Styled:
    sign, colour = SIGNS[severity]
    return Styled(sign, colour=colour)

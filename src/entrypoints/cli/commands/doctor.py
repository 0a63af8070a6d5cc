"""`cronhare doctor`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cronhare.adapters.addresses import LedgerFile
from cronhare.adapters.jobs.reader import JobsFile
from cronhare.application.doctor.finding import DiagnosisView, Finding, Seen, SettingsFacts, grouped
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import Severity

from ... import logs
from ...given import Named, as_argument, tasks_of
from ...settings.settings import Settings, SettingsInvalid
from ..errors import Refusal, Status
from ..jobs_files import App, load
from ..output import Json, Styled, print_json, print_line, table
from ..wiring import close_at_exit, faults_of

SIGNS = {
    Severity.OK: ("✓", "green"),
    Severity.NOTE: ("·", "cyan"),
    Severity.WARNING: ("!", "yellow"),
    Severity.ERROR: ("✗", "red"),
}


def doctor(
    *,
    jobs: Annotated[
        Path | None, typer.Option(help="Hold its tasks against the schedules. [env: CRON_JOBS]")
    ] = None,
    app: App = None,
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
    places = Named(jobs, app).places(settings)
    files, wrong = list[JobsFile](), list[str]()
    for place in places:
        try:
            files.append(load(place, settings, state="Nothing was changed."))
        except Refusal as refusal:
            wrong += [f"{place}: {fault}" for fault in refusal.details] or [refusal.what]
    if faults := _faults("settings", faults_of(container)):
        _print([*faults, *_faults("tasks", wrong)], json=json)
        raise typer.Exit(Status.WRONG_INPUT)
    close_at_exit(container)
    findings = [
        *_faults("tasks", wrong),
        *container.doctor().examine(
            Seen(
                settings=_facts(settings),
                queues=settings.queues,
                tasks=tasks_of(files) if files else None,
                jobs=" ".join(as_argument(each, "--jobs") for each in places) or None,
                files=[file.version for file in files],
                subscriptions=[file.subscriptions for file in files],
            ),
            retry_delay=settings.retry_delay,
            probe=probe,
        ),
    ]
    is_healthy = _print(findings, json=json)
    if wrong:
        raise typer.Exit(Status.WRONG_INPUT)
    raise typer.Exit(Status.DONE if is_healthy else Status.UNREACHABLE)


def _faults(subject: str, faults: Iterable[str]) -> Sequence[Finding]:
    cure = (
        "correct it at the place that it names; see docs/reference/settings.md"
        if subject == "settings"
        else "correct it, or name another one: --jobs or CRON_JOBS, --app or CRON_APP"
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
        unknown=settings.sources.unknown,
    )


def _print(findings: Sequence[Finding], *, json: bool) -> bool:
    found, told = DiagnosisView.of(findings), grouped(findings)
    if json:
        print_json(found)
        return found.healthy
    rows = [(_sign(each.severity), each.subject, each.what) for each in told]
    table("", "SUBJECT", "FINDING", rows=rows, empty="Nothing was looked at.")
    for each in told:
        if each.cure:
            print_line("")
            print_line(f"{_sign(each.severity)} {each.subject}: {each.what}")
            print_line(f"  → {each.cure}", style="bold")
    print_line("")
    summary = f"{counted(found.errors, 'error')}, {counted(found.warnings, 'warning')}."
    is_fine = not (found.errors or found.warnings)
    print_line("Nothing is wrong." if is_fine else summary, style="bold")
    return found.healthy


def _sign(severity: Severity) -> Styled:
    sign, colour = SIGNS[severity]
    return Styled(sign, colour=colour)

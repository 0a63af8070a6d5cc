"""`cronhare settings | doctor | db upgrade | db backup`."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cronhare.adapters.addresses import LedgerFile
from cronhare.adapters.jobs.reader import JobsFile
from cronhare.application.doctor.finding import DiagnosisView, Finding, Seen, SettingsFacts, grouped
from cronhare.domain.audit import Action
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import Severity

from ... import logs
from ...given import Named, as_argument, tasks_of
from ...node_identity import this_actor
from ...settings import IN_A_WORKER, IN_UP
from ...settings.settings import Settings, SettingsInvalid, SettingsView
from ...settings.sources import settings_files
from ..errors import Refusal, Status, file_refusal
from ..output import Json, Styled, print_json, print_line, table, working
from ..wiring import (
    App,
    close_at_exit,
    faults_of,
    load,
    read_settings,
    said_ledger,
    wire,
    wire_with,
)


def settings(*, json: Json = False) -> None:
    """Show each setting, and where it came from; passwords are left out."""
    found = Settings.read()
    view = SettingsView.of(found)
    if json:
        print_json(view)
    else:
        _print_table(view)
    if not (isinstance(found.ledger, LedgerFile) and found.in_memory):
        wire_with(found)  # which says what is wrong with the addresses of servers


#: What holds where these are not set.
_UNSET: Final = {"concurrency": f"up {IN_UP}, worker {IN_A_WORKER}"}


def _print_table(view: SettingsView) -> None:
    rows = [(each.name, _text(each.name, each.value), each.source) for each in view.settings]
    table("SETTING", "VALUE", "FROM", rows=rows, empty="There are none.")
    looked = ", ".join(map(str, settings_files()))
    print_line(f"Settings file: {view.file or f'none; looked for {looked}'}")
    for unknown in view.unknown:
        print_line(unknown, style="yellow")


def _text(name: str, value: object) -> object:
    if value is None:
        return _UNSET.get(name)
    match value:
        case bool():
            return "on" if value else "off"
        case tuple():
            return ",".join(value)
        case 0 if _may_be_off(name):
            return "off"
        case float():
            return f"{value:g}"
    return value


def _may_be_off(name: str) -> bool:
    with suppress(ValueError):
        return bool(Settings.declared()[name][1].form("off") == 0)
    return False


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


if TYPE_CHECKING:
    from ...container import Container


def upgrade_schema() -> None:
    """Bring the ledger's schema to this version; what is there stays there."""
    from cronhare.adapters.sql.dialects.sqlite_file import is_there  # noqa: PLC0415
    from cronhare.adapters.sql.migrations.upgrade import upgrade  # noqa: PLC0415 - `--help` does without

    container = wire()
    settings = container.settings()
    file = Path(settings.ledger.path) if isinstance(settings.ledger, LedgerFile) else None
    is_new = file is not None and not is_there(file)
    place = said_ledger(settings)
    with working(f"Upgrading {place}"):
        done = upgrade(container.engine())
    _write_down(container, done)
    if is_new:
        print_line(f"Made {place}: a new ledger, upgraded to {done[-1]}.")
    else:
        print_line(f"Upgraded {place} to {', '.join(done)}." if done else f"{place} is up to date.")


def backup(
    file: Annotated[Path, typer.Argument(help="The copy: a new file.", show_default=False)],
) -> None:
    """Copy a ledger in a file, also while others work on it; the copy is checked."""
    from cronhare.adapters.sql.dialects.sqlite_file import copy_to, is_there  # noqa: PLC0415

    settings, state = read_settings(), "Nothing was copied."
    ledger = settings.ledger
    if not isinstance(ledger, LedgerFile):
        tool = "pg_dump" if ledger.kind == "postgresql" else "mariadb-dump --single-transaction"
        advice = f"{state} Its own tool copies it: {tool} {ledger.database}"
        raise Refusal(f"{said_ledger(settings)} is on a server", advice=advice)
    if not is_there(path := Path(ledger.path)):
        raise Refusal(f"there is no ledger at {path.absolute()}", advice=state)
    try:
        with working(f"Copying {ledger}"):
            size = copy_to(path, file)
    except OSError as error:
        raise file_refusal(error, file, state) from error
    print_line(f"Copied {said_ledger(settings)} to {file}: {size:,} bytes, and it is sound.")


def _write_down(container: "Container", done: Sequence[str]) -> None:
    """Write an entry of the audit: after the change, as a new ledger has no place for it before."""
    if not done:
        return
    with container.audit_trail().change(
        this_actor(), Action.UPGRADE, "ledger", after={"revision": done[-1]}
    ):
        pass

"""`cronhare import crontab`."""

import getpass
import os
import pwd
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from cronhare.adapters.crontab.carrier import import_crontabs
from cronhare.adapters.crontab.reader import (
    Crontab,
    CrontabKind,
    Finding,
    Host,
    Imported,
    Verdict,
    accounts_in,
    guess_kind,
)
from cronhare.domain.cron import UnknownZone, find_zone
from cronhare.domain.schedules.catalog import LARGEST_FILE
from cronhare.domain.texts.words import counted

from ..errors import Refusal, file_refusal
from ..output import text
from ..progress import working

COLOURS = {Verdict.CARRIED: "green", Verdict.CHANGED: "yellow", Verdict.LEFT_OUT: "red"}
LOCALTIME = Path("/etc/localtime")
STDIN = Path("-")

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,255}\$?")


class CrontabTooLarge(ValueError):
    """A file that no cron daemon would read."""


def crontab(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Crontabs, or folders of them such as /etc/cron.d; - is standard input."
        ),
    ],
    *,
    kind: Annotated[
        CrontabKind | None,
        typer.Option(help="Without or with a user column; guessed from name and text."),
    ] = None,
    run_as: Annotated[
        str | None, typer.Option(help="The user that the worker will run as; you, by default.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="The zone of the host that ran them; this one's, by default.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new file; standard output by default.")
    ] = None,
) -> None:
    """Turn crontabs into a jobs file, and say what could not be carried over, and why."""
    user = run_as or _ourselves()
    if not _USER.fullmatch(user):
        raise Refusal(f"--run-as: {user!r} cannot name a user", advice="Nothing was written.")
    host = Host(
        run_as=user, timezone=_checked_zone(timezone), home=_home(user), homes=dict(_homes())
    )
    crontabs, unread = _read_all(files, kind)
    with working(f"Reading {counted(len(crontabs), 'crontab')}") as on_progress:
        imported = import_crontabs(crontabs, host=host, on_progress=on_progress)
    _write(imported.text, output)
    with suppress(OSError):  # the report may be lost; the file is written
        if kind is None:
            _print_kinds(crontabs, host)
        _report(imported, output)
    if unread:
        what = f"{counted(len(unread), 'crontab')} could not be read; the others were"
        raise Refusal(what, unread, "Correct the names, and import those as well.")


def _ourselves() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise Refusal(
            f"this process runs as user {os.getuid()}, who has no name here",
            advice="Nothing was written. Name whom the worker will run as: --run-as NAME",
        ) from error


def _checked_zone(given: str | None) -> str | None:
    """Give the zone that was named, or the host's if other hosts know it too."""
    name = given or host_zone()
    try:
        return name and str(find_zone(name))
    except UnknownZone as error:
        if given:
            raise Refusal(f"--timezone: {error}", advice="Nothing was written.") from error
        return None


def host_zone() -> str | None:
    """Name the zone of this host, if its /etc/localtime is a link to one."""
    parts = LOCALTIME.resolve().parts
    if "zoneinfo" not in parts:
        return None
    return "/".join(parts[parts.index("zoneinfo") + 1 :]) or None


def _homes() -> Iterator[tuple[str, str]]:
    """Give the folder in which cron starts the commands of each user of this host."""
    for user in pwd.getpwall():
        yield user.pw_name, user.pw_dir if Path(user.pw_dir).is_dir() else "/"


def _home(user: str) -> str | None:
    try:
        return str(Path(f"~{user}").expanduser())
    except RuntimeError:
        return None


def _read_all(files: Sequence[Path], kind: CrontabKind | None) -> tuple[list[Crontab], list[str]]:
    """Read the files that can be read, and say why the others cannot."""
    crontabs: list[Crontab] = []
    unread: list[str] = []
    for path in (each for file in files for each in _expand(file)):
        try:
            crontabs.append(_read(path, kind))
        except OSError as error:
            unread.append(f"{path}: {error.strerror or error}")
        except CrontabTooLarge:
            unread.append(f"{path}: it is larger than {LARGEST_FILE // 2**20} MiB")
    if unread and not crontabs:
        raise Refusal("no crontab could be read", unread, "Nothing was written.")
    return crontabs, unread


def _expand(path: Path) -> Sequence[Path]:
    try:
        if not path.is_dir():
            return [path]
        return sorted(
            each for each in path.iterdir() if each.is_file() and not each.name.startswith(".")
        )
    except OSError:
        return [path]  # reading it raises the reason


def _read(path: Path, kind: CrontabKind | None) -> Crontab:
    name, content = _content(path)
    if len(content) > LARGEST_FILE:
        raise CrontabTooLarge
    text = content.decode(errors="surrogateescape")
    return Crontab(name=name, text=text, kind=kind or guess_kind(name, text))


def _content(path: Path) -> tuple[str, bytes]:
    """Give a crontab's name and content; one byte more than may be used of it."""
    if path != STDIN:
        with path.open("rb") as file:
            return str(path), file.read(LARGEST_FILE + 1)
    with open(0, "rb", closefd=False) as pipe:  # may block: it was asked for
        return "stdin", pipe.read(LARGEST_FILE + 1)


def _write(jobs: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(jobs.encode())  # TOML is UTF-8, whatever the terminal speaks
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(jobs)
    except FileExistsError as error:
        advice = "Nothing was written. Choose another name, or remove it first."
        raise Refusal(f"{output} exists already", advice=advice) from error
    except OSError as error:
        raise file_refusal(error, output, "Nothing was written.") from error


def _print_kinds(crontabs: Sequence[Crontab], host: Host) -> None:
    """Print the kinds that were guessed: a wrong guess makes other commands of all lines."""
    out = Console(stderr=True, highlight=False, soft_wrap=True)
    for crontab in crontabs:
        is_system = crontab.kind is CrontabKind.SYSTEM
        column, other = ("with", "user") if is_system else ("without", "system")
        taken = f"taken for a crontab {column} a user column (otherwise: --kind {other})"
        out.print(text(f"{crontab.name}: {taken}"))
        if not is_system and (names := accounts_in(crontab.text, host.homes, which)):
            found = f"warning: {crontab.name}: lines begin with accounts of this host"
            out.print(text(f"{found}: {', '.join(names)}. Is it a system's? Then: --kind system"))


def _report(imported: Imported, output: Path | None) -> None:
    out = Console(stderr=True, highlight=False, soft_wrap=True)
    for finding in imported.findings:
        _say(out, finding)
    for note in imported.notes:
        out.print(text(f"note: {note}"))
    jobs = sum(finding.job is not None for finding in imported.findings)
    left = sum(finding.verdict is Verdict.LEFT_OUT for finding in imported.findings)
    out.print(text(f"{counted(jobs, 'job')} carried over, {counted(left, 'line')} left out."))
    if output is not None:
        out.print(text(f"Look at {output}, then run: cronhare check {output}"))


def _say(out: Console, finding: Finding) -> None:
    verdict = Text(finding.verdict.value, style=COLOURS[finding.verdict])
    shown = finding.job or finding.text
    out.print(Text.assemble(text(f"{finding.file}:{finding.line}: "), verdict, text(f": {shown}")))
    for reason in finding.reasons:
        out.print(text(f"    {reason}"))

"""`cronhare import crontab`."""

import os
import pwd
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import which
from typing import Annotated

import typer

from cronhare.adapters.crontab.carrier import import_crontabs
from cronhare.adapters.crontab.reader import (
    Crontab,
    CrontabKind,
    Host,
    Imported,
    Verdict,
    accounts_in,
    guess_kind,
)
from cronhare.domain.cron import UnknownZone, find_zone
from cronhare.domain.texts.words import counted

from ...node_identity import this_user
from ..errors import Refusal, write_new
from ..output import print_error, working

COLOURS = {Verdict.CARRIED: "green", Verdict.CHANGED: "yellow", Verdict.LEFT_OUT: "red"}
LOCALTIME = Path("/etc/localtime")
STDIN = Path("-")


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
    user = run_as or this_user()
    home = os.path.expanduser(f"~{user}")  # noqa: PTH111 - which leaves an unknown one as it is
    host = Host(
        run_as=user,
        timezone=_checked_zone(timezone),
        home=None if home.startswith("~") else home,
        homes=_homes(),
    )
    crontabs, unread = _read_all(files, kind)
    with working(f"Reading {counted(len(crontabs), 'crontab')}") as on_progress:
        imported = import_crontabs(crontabs, host=host, on_progress=on_progress)
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(imported.text.encode())  # UTF-8, whatever the terminal speaks
    else:
        write_new(output, imported.text, if_there="Choose another name, or remove it first.")
    for line in _kinds(crontabs, host, kind):
        print_error(line)
    _report(imported, output)
    if unread:
        what = f"{counted(len(unread), 'crontab')} could not be read; the others were"
        raise Refusal(what, unread, "Correct the names, and import those as well.")


def _checked_zone(given: str | None) -> str | None:
    name = given or host_zone()
    try:
        return name and str(find_zone(name))
    except UnknownZone as error:
        if given:
            raise Refusal(f"--timezone: {error}", advice="Nothing was written.") from error
        return None


def host_zone() -> str | None:
    """Name the zone of this host, if its /etc/localtime is a link to one."""
    return str(LOCALTIME.resolve()).partition("/zoneinfo/")[2] or None


def _homes() -> dict[str, str]:
    home = {user.pw_name: user.pw_dir for user in pwd.getpwall()}
    return {user: path if Path(path).is_dir() else "/" for user, path in home.items()}


def _read_all(files: Sequence[Path], kind: CrontabKind | None) -> tuple[list[Crontab], list[str]]:
    crontabs: list[Crontab] = []
    unread: list[str] = []
    for path in (each for file in files for each in _expand(file)):
        try:
            crontabs.append(_read(path, kind))
        except OSError as error:
            unread.append(f"{path}: {error.strerror or error}")
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
    is_pipe = path == STDIN
    name = "stdin" if is_pipe else str(path)
    with open(0 if is_pipe else path, "rb", closefd=not is_pipe) as file:
        text = file.read().decode(errors="surrogateescape")
    return Crontab(name=name, text=text, kind=kind or guess_kind(name, text))


def _kinds(crontabs: Sequence[Crontab], host: Host, asked: CrontabKind | None) -> Iterator[str]:
    """Say which kinds were guessed: a wrong guess makes other commands of all lines."""
    for crontab in () if asked else crontabs:
        is_system = crontab.kind is CrontabKind.SYSTEM
        column, other = ("with", "user") if is_system else ("without", "system")
        taken = f"taken for a crontab {column} a user column (otherwise: --kind {other})"
        yield f"{crontab.name}: {taken}"
        if not is_system and (names := accounts_in(crontab.text, host.homes, which)):
            found = f"warning: {crontab.name}: lines begin with accounts of this host"
            yield f"{found}: {', '.join(names)}. Is it a system's? Then: --kind system"


def _report(imported: Imported, output: Path | None) -> None:
    for finding in imported.findings:
        what = f"{finding.verdict.value}: {finding.job or finding.text}"
        print_error(f"{finding.file}:{finding.line}: {what}", style=COLOURS[finding.verdict])
        for reason in finding.reasons:
            print_error(f"    {reason}")
    for note in imported.notes:
        print_error(f"note: {note}")
    jobs = sum(finding.job is not None for finding in imported.findings)
    left = sum(finding.verdict is Verdict.LEFT_OUT for finding in imported.findings)
    print_error(f"{counted(jobs, 'job')} carried over, {counted(left, 'line')} left out.")
    if output is not None:
        print_error(f"Look at {output}, then run: cronhare check {output}")

"""`cronhare init` and `cronhare service install`: a first jobs file, and units of systemd."""

import enum
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from cronhare.domain.schedules.work import is_unseen

from ..errors import Refusal, write_new
from ..output import print_line


def init(
    jobs: Annotated[Path, typer.Argument(help="The file to make.", metavar="JOBS.TOML")] = Path(
        "jobs.toml"
    ),
) -> None:
    """Make a jobs file with comments, of one task that runs every minute."""
    named = shlex.quote(str(jobs))
    content = (files("cronhare.entrypoints.cli") / "first_jobs.toml").read_text()
    wrong = f"What is wrong with it, if anything: cronhare check {named}"
    write_new(jobs, content, if_there=wrong)
    print_line(f"Made {jobs}: one task, one schedule, and what else there may be as comments.")
    print_line("Next, each in a window of its own:")
    print_line(f"  cronhare up --jobs {named}")
    print_line("  cronhare schedules")
    print_line("  cronhare logs hello -f")


#: The program, as the units in the repository name it.
_PROGRAM: Final = "/opt/cronhare/bin/cronhare"
#: A name that useradd takes, too.
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,30}")

_UNITS: Final = Path("etc/systemd/system")
_OURS: Final = Path("etc/cronhare")
_CREDENTIALS: Final = "/etc/cronhare/credentials"


class Process(enum.StrEnum):
    """What a unit can be for."""

    UP = "up"
    SCHEDULER = "scheduler"
    WORKER = "worker"
    WEB = "web"


#: The unit of each, and what systemctl starts of it; of a worker any number.
_FILES: Final = {
    Process.UP: ("cronhare.service", "cronhare"),
    Process.SCHEDULER: ("cronhare-scheduler.service", "cronhare-scheduler"),
    Process.WORKER: ("cronhare-worker@.service", "cronhare-worker@1"),
    Process.WEB: ("cronhare-web.service", "cronhare-web"),
}


def install(
    processes: Annotated[
        list[Process] | None,
        typer.Argument(help="What to run: `up` on one machine, by default; or the others."),
    ] = None,
    *,
    user: Annotated[
        str | None,
        typer.Option(help="Whom services and tasks run as: cronhare; with --like-cron root."),
    ] = None,
    like_cron: Annotated[
        bool, typer.Option("--like-cron", help="Let tasks do whatever they may under cron.")
    ] = False,
    program: Annotated[
        Path | None, typer.Option(help="The command that they start; this one, by default.")
    ] = None,
    root: Annotated[Path, typer.Option(help="The folder to write below, as for an image.")] = Path(
        "/"
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--print", help="Print the files, and write none.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write units anew that differ from ours.")
    ] = False,
) -> None:
    """Write units for systemd, the user they need, and settings where there are none yet.

    Nothing is started: the last lines say what to run. Settings and environment files that are
    there stay as they are.
    """
    wanted = tuple(dict.fromkeys(processes or [Process.UP]))
    if Process.UP in wanted and len(wanted) > 1:
        raise Refusal("`up` is scheduler, worker and web in one: install it alone, or these")
    user = user or ("root" if like_cron else "cronhare")
    if not _USER.fullmatch(user):
        raise Refusal(f"--user: {user!r} cannot name a user")
    command = _program(program, dry_run=dry_run or like_cron)
    names = [_FILES[each][0] for each in wanted]
    units = {root / _UNITS / name: _adapted(name, user, command) for name in names}
    if like_cron:
        units = {path: _unconfined(text) for path, text in units.items()}
    else:
        units[root / "etc/sysusers.d/cronhare.conf"] = _adapted("cronhare.sysusers", user, command)
    settings = "cronhare.toml" if Process.UP in wanted else "environment"
    beside = {root / _OURS / settings: _adapted(settings, user, command)}
    if dry_run:
        for path, content in (units | beside).items():
            sys.stdout.write(f"# ---- {path}\n{content}\n")
        return
    differing = [path for path, content in units.items() if _differs(path, content)]
    if differing and not force:
        raise Refusal(
            "there are units that differ from what would be written",
            [*map(str, differing)],
            "Nothing was written. Changes of yours belong into `systemctl edit`, which an "
            "upgrade leaves alone; --force writes these anew.",
        )
    for line in (*_write(units, again=True), *_write(beside, again=False)):
        print_line(line)
    for line in _next(wanted, command, makes_user=not like_cron):
        print_line(line)


def _program(given: Path | None, *, dry_run: bool) -> str:
    """Find what the units start: a service sees no home of a user."""
    found = given or Path(shutil.which(sys.argv[0]) or sys.argv[0])
    command = str(found.absolute())
    places = dict.fromkeys((command, os.path.normpath(command), os.path.realpath(command)))
    hidden = next(filter(is_unseen, places), None)
    if not dry_run and hidden:
        raise Refusal(
            f"--program: {hidden} is in a home, which the services cannot see (ProtectHome)",
            advice="Nothing was written. Install it elsewhere, as into a venv in /opt/cronhare.",
        )
    if any(each.isspace() or each in "%\"'\\$" for each in command):
        raise Refusal(f"--program: {command!r} cannot be named in a unit")
    return command


def _adapted(name: str, user: str, program: str) -> str:
    text = (files("cronhare.entrypoints") / "systemd" / name).read_text()
    text = text.replace(_PROGRAM, program)
    text = re.sub(r"^(User|Group)=cronhare$", rf"\1={user}", text, flags=re.MULTILINE)
    return re.sub(r"^u cronhare ", f"u {user} ", text, flags=re.MULTILINE)


def _unconfined(unit: str) -> str:
    """Give tasks what they have under cron: all rights of the user, all files, a umask of 022."""
    unit = re.sub(r"^(Group|TasksMax)=.*\n", "", unit, flags=re.MULTILINE)
    free = "# As under cron: tasks may do whatever this user may.\n"
    unit = re.sub(r"# What tasks may do.*(?=StateDirectory=)", free, unit, flags=re.DOTALL)
    return unit.replace("UMask=0077", "UMask=0022")


def _differs(path: Path, content: str) -> bool:
    try:
        return path.read_text() != content
    except FileNotFoundError:
        return path.is_symlink()  # to nothing


def _write(wanted: dict[Path, str], *, again: bool) -> Iterator[str]:
    for path, content in wanted.items():
        try:
            if os.path.lexists(path) and (not again or not _differs(path, content)):
                yield f"{path} is there already, and stays as it is."
                continue
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.new")
            new.write_text(content, encoding="utf-8")
            new.chmod(0o644)
            new.replace(path)
        except OSError as error:
            advice = "Run it as root; or with --dry-run, which prints the files."
            raise Refusal(f"{path}: {error.strerror}", advice=advice) from error
        yield f"Wrote {path}."


def _next(wanted: Sequence[Process], command: str, *, makes_user: bool) -> Iterator[str]:
    names = " ".join(_FILES[each][1] for each in wanted)
    yield "Next:"
    if makes_user:
        yield "  systemd-sysusers"
    if Process.UP in wanted:
        yield f"  {command} init /etc/cronhare/jobs.toml      # unless you have one"
    else:
        yield f"  # the URLs of the servers, root's alone (0600), into {_CREDENTIALS}/"
        yield "  # database-url and broker-url; a jobs file into /etc/cronhare/jobs.toml; then"
        yield f"  CRON_DATABASE_URL_FILE={_CREDENTIALS}/database-url {command} db upgrade"
    yield f"  systemctl daemon-reload && systemctl enable --now {names}"
    yield f"  journalctl --unit {names.partition(' ')[0]} --follow"

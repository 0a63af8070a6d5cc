"""A site: the command line, in a folder with a ledger of its own.

Each call is a process, forked from one in which everything is imported already: a tenth of the
time of one that starts anew. What is about the start itself belongs to `tests.integration.shell`.
"""

import io
import multiprocessing
import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from pkgutil import iter_modules

from cronhare.entrypoints.cli import commands as modules
from cronhare.entrypoints.cli.errors import Status
from tests.fuzz.corpus import Answer, Mishandled, Place
from tests.integration.shell import Said, clean_environment

#: Seconds after which a command hangs, however busy the machine.
PATIENCE = 60.0

#: No refusal needs more characters than this.
LONGEST = 20_000

#: The file that the ledger is in by default.
LEDGER = "cronhare.sqlite3"

#: What moves a terminal's cursor, or ends a line where a reader does not expect it.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

JOBS = """
[tasks.innocent]
id = 1
command = ["/bin/true"]
[schedules.innocent]
task = "innocent"
schedule = "* * * * *"
"""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        *(f"{modules.__name__}.{each.name}" for each in iter_modules(modules.__path__)),
        "tests.fuzz.commands",
    ]
)


class Commands:
    """Calls cronhare in a folder whose ledger has one innocent schedule."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "innocent.toml").write_text(JOBS)
        for preparing in (("db", "upgrade"), ("apply", "innocent.toml")):
            said = self(*preparing)
            assert said.status == 0, said

    def __call__(self, *arguments: str, **settings: str) -> Said:
        """Call it with these arguments and `CRON_` settings, and wait for its end.

        Raises:
            Mishandled: it hangs.
        """
        out, err = self.folder / "out", self.folder / "err"
        environment = clean_environment() | {"TZ": "UTC", "COLUMNS": "200"} | settings
        given = self.folder, arguments, environment, out, err
        process = _context.Process(target=_run, args=given)
        process.start()
        process.join(PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise Mishandled(f"it hangs: {_shown(arguments)}")
        texts = (path.read_bytes().decode(errors="replace") for path in (out, err))
        return Said(process.exitcode, *texts)

    def write(self, text: str | bytes, name: str = "jobs.toml") -> None:
        """Write a file into the folder."""
        (self.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    def innocent(self) -> None:
        """See `Site.innocent`: the ledger is whole, and has the innocent schedule alone.

        It is looked into from here: a command of its own for this took half of all the time.
        """
        with closing(sqlite3.connect(self.folder / LEDGER)) as ledger:
            names = ledger.execute("SELECT name FROM Scheduler WHERE source <> ''").fetchall()
            whole = ledger.execute("PRAGMA quick_check").fetchall()
        if names != [("innocent",)] or whole != [("ok",)]:
            raise Mishandled(f"the innocent schedule is not alone: {names}, {whole}")


def answer(said: Said, *, naming: str = "") -> Answer:
    """Judge what a command said: done, or a refusal in sentences, with *naming* in it.

    Raises:
        Mishandled: it is neither.
    """
    if "Traceback (most recent call last)" in said.out + said.err:
        raise Mishandled(f"a traceback: {said.err[-1_000:]}")
    if found := CONTROL.search(said.out + said.err):
        raise Mishandled(f"{found[0]!r} is printed: {said}")
    if said.status == Status.DONE:
        return Answer.HANDLED
    if said.status not in {Status.WRONG_INPUT, Status.UNREACHABLE}:
        raise Mishandled(f"status {said.status}: {said.err[-1_000:]}")
    if not said.err.startswith(("cronhare: ", "Usage: ")) or len(said.err) > LONGEST:
        raise Mishandled(f"no refusal in sentences: {said.err[:1_000]} ({len(said.err)} long)")
    if naming not in said.err:
        raise Mishandled(f"{naming} is not named: {said.err[-1_000:]}")
    return Answer.REFUSED


def refused(said: Said, *, naming: str = "") -> Answer:
    """Judge what a command said that had to refuse.

    Raises:
        Mishandled: it did not, or not well.
    """
    if answer(said, naming=naming) is not Answer.REFUSED:
        raise Mishandled(f"it was accepted without a word: {said.out[-1_000:]}")
    return Answer.REFUSED


def handled(said: Said) -> Answer:
    """Judge what a command said that had to do its work.

    Raises:
        Mishandled: it did not.
    """
    if answer(said) is not Answer.HANDLED:
        raise Mishandled(f"it was refused: {said.err[-1_000:]}")
    return Answer.HANDLED


@contextmanager
def commands(place: Place) -> Iterator[Commands]:
    """Open the site."""
    yield Commands(place.folder)


def _run(
    folder: Path, arguments: tuple[str, ...], environment: dict[str, str], out: Path, err: Path
) -> None:
    """Become the command, in the forked process."""
    from cronhare.entrypoints.cli.app import main  # noqa: PLC0415 - imported already, over there

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for path, number in ((out, 1), (err, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), write_through=True)  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(
        open(2, "wb", closefd=False),  # noqa: SIM115
        errors="backslashreplace",
        write_through=True,
    )
    sys.argv = ["cronhare", *arguments]
    main()


def _shown(arguments: tuple[str, ...]) -> str:
    return " ".join(f"{each[:100]!r}" for each in arguments)

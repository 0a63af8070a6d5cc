"""Boundary: a ledger file that somebody writes into while `cronhare up` works on it."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.fuzz.commands import PATIENCE
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
from tests.fuzz.more_ledgers import COLUMNS, VALUES, Ledgers
from tests.integration.shell import PROGRAM, clean_environment
from tests.services.finding import end, wait_until


class Embedded(Ledgers):
    """`cronhare up` at work, and commands beside it."""

    process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Start it, and wait until it works."""
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "up", "--no-web", "--jobs", "innocent.toml"],
                cwd=self.folder,
                env=clean_environment() | {"TZ": "UTC", "CRON_REFRESH_SECONDS": "1"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(lambda: "Running" in self.said, seconds=PATIENCE, what="its start")

    @property
    def said(self) -> str:
        """Read its log."""
        return (self.folder / "log").read_text(errors="replace")

    def innocent(self) -> None:
        """See `Site.innocent`: a run that is asked for succeeds, and nothing else is amiss."""
        done = self("run", "innocent", "--wait")
        if done.status != 0:
            raise Mishandled(f"the innocent run ended with {done}: {self.said[-1_000:]}")
        if self.process.poll() is not None:
            raise Mishandled(f"it ended: {self.said[-1_000:]}")
        if found := re.search(r"Traceback.*", self.said, re.DOTALL):
            raise Mishandled(f"a traceback: {found[0][:1_500]}")
        if found := re.search(r"[\x00-\x08\x0b-\x1f\x7f]", self.said):
            raise Mishandled(f"{found[0]!r} is in the log")


def _spoil(embedded: Embedded, table: str, column: str, value: str) -> Answer:
    """Spoil what is a victim's, in a state that is looked at, and have it looked at."""
    where = {
        "Scheduler": "name = 'victim'",
        "SchedulerPlan": "scheduler_id = (SELECT id FROM Scheduler WHERE name = 'victim')",
        "SchedulerExecution": "execution_key IN ('running', 'skipped')",
    }.get(table, "1")
    embedded.statements(
        "UPDATE SchedulerExecution SET state = 'published', published_at = '2026-01-01 00:00:00', "
        "check_at = '2026-01-01 00:00:00', finished_at = NULL WHERE execution_key = 'skipped'",
        "UPDATE SchedulerExecution SET state = 'running', owner = 'x', lease_until = "
        "'2026-01-01 00:00:00', finished_at = NULL WHERE execution_key = 'running'",
        f"UPDATE {table} SET {column} = {value} WHERE {where}",
    )
    return Answer.HANDLED


def _entries() -> Iterator[Entry[Embedded]]:
    looked_at = ("Scheduler", "SchedulerPlan", "SchedulerExecution")
    numbered = enumerate(
        (table, column) for table in looked_at for column in COLUMNS[table].split()
    )
    for n, (table, column) in numbered:
        value = list(VALUES)[n % len(VALUES)]
        if column not in {"execution_key", "state"}:
            attempt = partial(_spoil, table=table, column=column, value=VALUES[value])
            yield Entry(f"{value} in {table}.{column}", attempt)
    for what, spoil in _BELL.items():
        yield Entry(what, partial(_spoil_bell, spoil=spoil))


def _write_garbage(path: Path) -> None:
    """Write what is no ring, and as much as goes in."""
    bell = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while os.write(bell, b"\0\xff\x1b[2J" * 1_000):
            pass
    os.close(bell)


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def _spoil_bell(embedded: Embedded, spoil: Callable[[Path], object]) -> Answer:
    """Do something to the fifo beside the ledger, and put it back for the next one."""
    path = embedded.folder / "cronhare.sqlite3-bell"
    kept = path.with_name("kept")
    if not kept.exists():
        os.link(path, kept)
    spoil(path)
    embedded.innocent()
    with suppress(OSError):
        path.unlink()
    os.link(kept, path)
    return Answer.HANDLED


_BELL: dict[str, Callable[[Path], object]] = {
    "garbage in the bell": _write_garbage,
    "no bell": Path.unlink,
    "a file for a bell": partial(_replace, make=lambda path: path.write_text("x")),
    "a link for a bell": partial(_replace, make=lambda path: path.symlink_to("/dev/zero")),
    "a bell that nobody reads": partial(_replace, make=os.mkfifo),
    "a bell that is closed to us": lambda path: path.chmod(0),
}


@contextmanager
def embedded(place: Place) -> Iterator[Embedded]:
    """Open the site."""
    opened = Embedded(place.folder)
    opened.start()
    try:
        yield opened
    finally:
        end(opened.process, seconds=PATIENCE)


BOUNDARY = Boundary(name="more embedded", at=embedded, entries=list(_entries()))

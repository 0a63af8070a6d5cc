"""An upgrade replaces the files below a running process: what lives long imports nothing late."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.integration.shell import Shell, clean_environment
from tests.services.finding import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

#: Calls the command, and notes the modules that it looks for once there is a file `begun`.
NOTING = """
import os, sys

class Late:
    def find_spec(self, name, path=None, target=None):
        if os.path.exists("begun"):
            with open(f"late-{os.getpid()}", "a") as late:
                late.write(name + "\\n")

sys.meta_path.insert(0, Late())
from cronhare.entrypoints.cli.app import main
main()
"""

JOBS = """
[tasks.good]
command = ["true"]

[tasks.bad]
command = ["sh", "-c", "echo oops >&2; exit 3"]
retry = { attempts = 2, backoff = { type = "fixed", delay = 1000 } }

[schedules.bad]
task = "bad"
every = "1s"
"""


class Started:
    def __init__(self, popen: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
        self.popen, self._folder, self._log = popen, folder, log

    def until(self, words: str) -> None:
        assert self.popen.poll() is None, self._log.read_text()
        wait_until(lambda: words in self._log.read_text(), seconds=60, what=repr(words))

    @property
    def late(self) -> set[str]:
        noted = self._folder / f"late-{self.popen.pid}"
        return set(noted.read_text().split()) if noted.exists() else set()

    def end(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(timeout=60)


@contextmanager
def started(command: str, folder: Path, **settings: str) -> Iterator[Started]:
    with (folder / f"{command}.log").open("wb") as log:
        popen = subprocess.Popen(
            [sys.executable, "-c", NOTING, command],
            cwd=folder,
            env=clean_environment() | {"CRON_JOBS": "jobs.toml", "TZ": "UTC"} | settings,
            stderr=log,
        )
        try:
            yield Started(popen, folder, folder / f"{command}.log")
        finally:
            popen.kill()
            popen.wait()


def test_scheduler_and_worker_import_nothing_after_their_start(tmp_path: Path, vhost: str) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)
    settings = {
        "CRON_DATABASE_URL": "sqlite:///ledger.sqlite3",
        "CRON_BROKER_URL": vhost,
        "CRON_LOG_LEVEL": "DEBUG",
    }
    shell = Shell(tmp_path)
    assert shell("db", "upgrade", **settings).status == 0
    assert shell("apply", "jobs.toml", **settings).status == 0
    with ExitStack() as both:
        scheduler = both.enter_context(started("scheduler", tmp_path, **settings))
        worker = both.enter_context(started("worker", tmp_path, **settings))
        scheduler.until("A probe came through each of 16 lanes")
        worker.until("Task execution failed")
        (tmp_path / "begun").touch()
        for process in (scheduler, worker):
            os.kill(process.popen.pid, signal.SIGHUP)
            os.kill(process.popen.pid, signal.SIGUSR1)
        assert shell("run", "bad", **settings).status == 0

        worker.until("Reloaded")
        worker.until("kept in the archive")
        assert [scheduler.end(), worker.end()] == [0, 0]

    assert (scheduler.late, worker.late) == (set(), set())

"""An upgrade replaces the files below a running process: what lives long imports nothing late."""

import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.arena import Arena
from tests.faults.house import PATIENCE, Process, stop_politely
from tests.integration.shell import Shell
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


def late(folder: Path, process: Process) -> set[str]:
    noted = folder / f"late-{process.pid}"
    return set(noted.read_text().split()) if noted.exists() else set()


def test_scheduler_and_worker_import_nothing_after_their_start(tmp_path: Path, vhost: str) -> None:
    with closing(Arena(tmp_path, 0, CRON_BROKER_URL=vhost, CRON_JOBS="jobs.toml")) as arena:

        def until(role: str, words: str) -> None:
            [log] = arena.logs.glob(f"*-{role}.log")
            wait_until(lambda: words in log.read_text(), seconds=PATIENCE, what=words)

        (tmp_path / "jobs.toml").write_text(JOBS)
        arena.apply()
        both = [
            arena.start_program(sys.executable, "-c", NOTING, role)
            for role in ("scheduler", "worker")
        ]
        until("scheduler", "A probe came through each of 16 lanes")
        until("worker", "Task execution failed")
        (tmp_path / "begun").touch()
        for process in both:
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGUSR1)
        assert Shell(tmp_path)("run", "bad", **arena.settings).status == 0

        until("worker", "Reloaded")
        until("worker", "kept in the archive")
        stop_politely(both)

    assert [late(tmp_path, process) for process in both] == [set(), set()]

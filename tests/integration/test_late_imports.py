"""An upgrade replaces the files below a running process: what lives long imports nothing late."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.integration.shell import Shell, clean_environment
from tests.integration.web import Site
from tests.services.finding import free_port, wait_until

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

#: Nobody listens at this port.
TELLING = {
    "CRON_SMTP_URL": "smtp://127.0.0.1:9",
    "CRON_SMTP_FROM": "cronhare@example.org",
    "CRON_HTTP_ALLOWED_HOSTS": "127.0.0.1",
}

#: Who names a first calendar has its libraries imported then.
OF_CALENDARS = (
    "icalendar", "recurring_ical_events", "x_wr_timezone", "dateutil", "click", "winreg", "six",
)  # fmt: skip

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

RELOADED = """
[notify.someone]
webhook = "http://127.0.0.1:9/"

[notify.mail]
email = ["someone@example.org"]

[calendars.off]
timezone = "Europe/Berlin"
file = "off.ics"

[tasks.web]
url = "http://127.0.0.1:9/"
retry = { attempts = 1 }

[tasks.slow]
command = ["sleep", "60"]
timeout = "1s"

[schedules.web]
task = "web"
every = "1s"
notify = ["someone", "mail"]

[schedules.slow]
task = "slow"
every = "1s"

[schedules.ranges]
task = "good"
schedule = "*/5 H(1-3) L jan-mar/2 mon#2"
timezone = "Asia/Tokyo"
skip_on = ["off"]
"""

CALENDAR = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//tests//EN
BEGIN:VEVENT
UID:1
DTSTAMP:20260101T000000Z
DTSTART;VALUE=DATE:20260101
RRULE:FREQ=YEARLY
SUMMARY:New year
END:VEVENT
END:VCALENDAR
"""


class Started:
    """A process that lives long."""

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


def tried(shell: Shell) -> bool:
    """Whether each target was tried to be told of something."""
    targets = {
        event["target"] for event in shell("events", "list", "--json").json() if event["tries"]
    }
    return targets >= {"someone", "mail"}


def test_up_imports_nothing_after_its_first_run_but_what_a_first_calendar_needs(
    tmp_path: Path,
) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)
    (tmp_path / "off.ics").write_text(CALENDAR.replace("\n", "\r\n"))
    site = Site(free_port())
    address = {"CRON_WEB_ADDRESS": f"127.0.0.1:{site.port}"}
    with started("up", tmp_path, **TELLING, **address) as up:
        up.until("Task execution failed")
        up.until("Page and API at")
        (tmp_path / "begun").touch()

        (tmp_path / "jobs.toml").write_text(JOBS + RELOADED)
        up.popen.send_signal(signal.SIGHUP)
        up.until("Reloaded jobs.toml")
        up.popen.send_signal(signal.SIGUSR1)
        for words in ("killed by signal", "refused", "Servers: all answer"):
            up.until(words)
        for path in ("/schedulers", "/openapi.json", "/executions/1/output", "/"):
            assert site.get(path).status == 200
        made = {"schedule": "0 8 * * *", "task": "good", "retry": {"attempts": 2}}
        assert site.post("/schedulers", made).status == 201
        wait_until(partial(tried, Shell(tmp_path)), seconds=60, what="telling of it", every=0.5)
        assert up.end() == 0

    assert {name for name in up.late if name.partition(".")[0] not in OF_CALENDARS} == set()


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

"""A site: a scheduler and two workers as processes, on a real broker and a real database.

The innocent are schedules that are due once a year, or when we say so, and messages of somebody who
knows nothing of us. Both run `/bin/true`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.fuzz.corpus import Mishandled, Place
from tests.production.plant import Plant, plant
from tests.services.finding import wait_until

#: Seconds within which what is innocent has ended, however busy the machine.
PATIENCE = 60.0

#: A process that says the same so often between two looks goes round in circles.
FLOOD = 50

#: So many innocent schedules that none is due twice within one minute.
MANY = 90

SETTINGS = {
    "CRON_REFRESH_SECONDS": "1",
    "CRON_LEASE_SECONDS": "5",
    "CRON_SHUTDOWN_GRACE_SECONDS": "2",
    "CRON_LOG_LEVEL": "INFO",
}

#: `innocent` does nothing; `script` runs what its params say, as a shell script.
JOBS = """
[tasks.innocent]
type = "worker"
id = 1
command = ["/bin/true"]

[tasks.script]
type = "worker"
id = 2
timeout = "20s"
command = ["python3", "-c", '''
import json, os, sys
os.execv("/bin/sh", ["/bin/sh", "-c", json.load(sys.stdin)["script"]])
''']

[schedules.script]
task = "script"
schedule = "@yearly"
retry = { attempts = 1 }
"""

INNOCENT = """
[schedules.innocent-{n}]
task = "innocent"
schedule = "@yearly"
"""


class Works:
    """A plant at work, and what was read of its logs so far."""

    def __init__(self, built: Plant) -> None:
        self.plant = built
        self._names = cycle(range(MANY))
        self._read: dict[Path, int] = {}
        self.ids: dict[str, int] = dict(self.plant.query("SELECT name, id FROM Scheduler"))

    def start(self) -> None:
        """Start everybody, and wait until they work."""
        self.plant.start("scheduler")
        for _ in range(2):
            self.plant.start_worker(concurrency=4)
        self.plant.wait_until_all_work(workers=2)
        self._mark()

    def innocent(self) -> None:
        """See `Site.innocent`: a due instant and a message run, and nothing else is amiss."""
        for condition in (self.make_innocent_due(), self.publish_innocent()):
            self.wait_for_state(condition, "succeeded")
        self._look()

    def make_innocent_due(self) -> str:
        """Have the next innocent schedule be due now; gives the condition that finds its run."""
        id_ = self.ids[f"innocent-{next(self._names)}"]
        now = self.plant.arena.claims.now()
        due = now.replace(second=0, microsecond=0, tzinfo=None)
        since = (now - timedelta(seconds=1)).replace(tzinfo=None)
        self.plant.query(
            f"UPDATE SchedulerPlan SET next_due_at = '{due}' WHERE scheduler_id = {id_}"
        )
        return f"scheduler_id = {id_} AND executed_at >= '{since}'"

    def publish_innocent(self) -> str:
        """Publish an innocent message; gives the condition that finds its run."""
        mark = str(uuid4())
        self.plant.publish(self.body(mark=mark))
        return f"params LIKE '%{mark}%'"

    def body(self, task: int = 1, **params: object) -> bytes:
        """Write a message of somebody who knows nothing of us."""
        message = {
            "type": "worker",
            "id": task,
            "scheduler_id": self.ids["script"],
            "params_scheduler": json.dumps(params),
        }
        return json.dumps(message).encode()

    def run_script(self, script: str) -> str:
        """Have a task run a shell script; gives the condition that finds its run."""
        mark = str(uuid4())
        self.plant.publish(self.body(2, script=script, mark=mark))
        return f"params LIKE '%{mark}%'"

    def states(self, condition: str) -> list[str]:
        """Read the states of the runs that a condition finds."""
        rows = self.plant.query(f"SELECT state FROM SchedulerExecution WHERE {condition}")
        return [state for (state,) in rows]

    def wait_for_state(self, condition: str, *states: str) -> None:
        """Wait until the one run that a condition finds is in one of these states.

        Raises:
            Mishandled: it is not, in time.
        """
        wanted = [[state] for state in states]
        try:
            wait_until(
                lambda: self.states(condition) in wanted, seconds=PATIENCE, every=0.1, what="it"
            )
        except TimeoutError:
            found = self.states(condition)
            raise Mishandled(f"it is {found}, not one of {states}: {self._last()}") from None

    def lines(self) -> list[dict[str, Any]]:
        """Read the log lines of everybody, since the last look."""
        return [line for path in self._logs() for line in self._lines_of(path)]

    def _logs(self) -> list[Path]:
        return sorted(self.plant.arena.logs.glob("*.log"))

    def _lines_of(self, path: Path) -> Iterator[dict[str, Any]]:
        with path.open("rb") as log:
            log.seek(self._read.get(path, 0))
            for text in log.read().splitlines():
                try:
                    yield json.loads(text)
                except ValueError:  # a bare traceback, or a line that is still being written
                    yield {"level": "ERROR", "message": text.decode(errors="replace")}

    def _mark(self) -> None:
        self._read = {path: path.stat().st_size for path in self._logs()}

    def wait_for_line(self, action: str = "", *, naming: str = "") -> dict[str, Any]:
        """Wait for a line of this action (any, if none) with *naming* in its message.

        Raises:
            Mishandled: nobody says so.
        """
        found: list[dict[str, Any]] = []

        def is_said() -> bool:
            found[:] = [
                line
                for line in self.lines()
                if action in {"", line.get("action")} and naming in line["message"]
            ]
            return bool(found)

        try:
            wait_until(is_said, seconds=PATIENCE, every=0.1, what="it")
        except TimeoutError:
            raise Mishandled(f"nobody says {action} {naming}: {self._last()}") from None
        return found[0]

    def _look(self) -> None:
        ended = [each.args for each in self.plant.processes if each.poll() is not None]
        if ended:
            raise Mishandled(f"processes ended: {ended}: {self._last()}")
        lines = self.lines()
        for line in lines:
            if "Traceback (most recent call last)" in json.dumps(line):
                raise Mishandled(f"a traceback: {line}")
        said = [line["message"] for line in lines if line["level"] in {"WARN", "ERROR"}]
        if loud := {text for text in said if said.count(text) > FLOOD}:
            raise Mishandled(f"{len(said)} warnings and errors, such as {min(loud)}")
        self._mark()

    def _last(self) -> str:
        troubles = [line for line in self.lines() if line["level"] in {"WARN", "ERROR"}]
        return json.dumps(troubles[-5:])[-2_000:]


@contextmanager
def works(place: Place) -> Iterator[Works]:
    """Open the site, and stop everybody politely at the end."""
    jobs = JOBS + "".join(INNOCENT.format(n=n) for n in range(MANY))
    with plant(place.folder, place.broker, place.database, jobs, **SETTINGS) as built:
        opened = Works(built)
        opened.start()
        yield opened
        built.stop()

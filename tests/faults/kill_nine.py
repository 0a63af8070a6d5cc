"""Kill `cronhare up` with SIGKILL again and again, with retries under way; then ask the ledger.

Run it:  .venv/bin/python -m tests.faults.kill_nine --kills 50
Every due instant must be in the ledger exactly once, every attempt have been started at most
once and count at most once, nothing be stuck, and no process be left over.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from uuid import uuid4

import attrs

from cronhare.adapters.sql import SqlClaimStore, SqlRecords, SqlScheduleStore, open_engine, upgrade
from cronhare.adapters.system.clock import SystemClock
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.keys import manual_key
from cronhare.ports.records import ExecutionFilter

SCHEDULES = 20
MANUAL_PER_CYCLE = 5
SETTLE_SECONDS = 90.0
MARK = "KILL_NINE_MARK"
RUNNING = "Running; Ctrl-C ends it"

#: Writes down that it began, works a little, and fails on its first attempt every third time.
TASK = """\
echo "$CRON_EXECUTION_ID $CRON_ATTEMPT" >> "$EFFECTS"
sleep 0.{tenths}
[ "$CRON_ATTEMPT" -gt 1 ] || [ $((CRON_EXECUTION_ID % 3)) -ne 0 ]
"""


@attrs.frozen(kw_only=True)
class Figures:
    """What a round of kills has shown."""

    kills: int
    executions: int
    attempts: int
    cut_off: int
    retried: int
    quarantined: int
    lost: int
    doubled: int
    stuck: int
    orphans: int
    recovery: float

    @property
    def faults(self) -> int:
        """How often a promise was broken."""
        return self.lost + self.doubled + self.stuck + self.orphans


class Arena:
    """A folder with a jobs file, a ledger and the tasks' own record of what they did.

    *settings* choose other servers than SQLite and the broker in memory.
    """

    def __init__(self, folder: Path, seed: int, **settings: str) -> None:
        self.folder = folder
        self.settings = {
            "CRON_DATABASE_URL": f"sqlite:///{folder / 'ledger.sqlite3'}",
            **settings,
        }
        self.mark = f"{seed}-{uuid4()}"
        self.effects = folder / "effects"
        self.effects.touch()
        self.log = folder / "log"
        (folder / "jobs.toml").write_text(self._jobs())
        self.engine = engine = open_engine(self.settings["CRON_DATABASE_URL"])
        upgrade(engine)
        clock = SystemClock()
        self.claims = SqlClaimStore(engine, clock)
        self.records = SqlRecords(engine, clock)
        self.schedules = SqlScheduleStore(engine, clock)

    def _jobs(self) -> str:
        env = f'{{ EFFECTS = "{self.effects}", {MARK} = "{self.mark}" }}'
        tasks = [
            f'[tasks.t{n}]\nid = {n}\nenv = {env}\ncommand = ["/bin/sh", "-c", \'\'\'\n'
            f"{TASK.format(tenths=n % 10)}''']\n"
            for n in range(1, SCHEDULES + 1)
        ]
        schedules = [
            f'[schedules.s{n}]\ntask = "t{n}"\nschedule = "* * * * *"\nretry = {{ attempts = 8, '
            f'backoff = {{ type = "fixed", delay = 1000 }} }}\n'
            for n in range(1, SCHEDULES + 1)
        ]
        return "\n".join(tasks + schedules)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a process, `cronhare up` by default, in a session of its own."""
        command = command or ("up", "--jobs", "jobs.toml")
        environment = {name: text for name, text in os.environ.items() if "CRON_" not in name}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [Path(sys.executable).with_name("cronhare"), *command],
                cwd=self.folder,
                env=environment | self.settings,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ask_for_runs(self) -> None:
        """Begin a few runs by hand, as `cronhare run` does from another process."""
        ids = self.schedules.ids([f"s{n}" for n in range(1, MANUAL_PER_CYCLE + 1)])
        for scheduler_id in ids.values():
            self.records.run_now(
                scheduler_id,
                key=manual_key(uuid4()),
                params=None,
                now=self.claims.now(),
                node="by-hand",
            )

    def executions(self) -> list[Execution]:
        """Read the ledger, without the system's own."""
        rows = self.records.executions(ExecutionFilter(limit=1_000_000))
        return [row for row in rows if row.task.type != "system"]

    def orphans(self) -> int:
        """Count processes that carry our mark."""
        return sum(self._is_ours(folder) for folder in Path("/proc").glob("[0-9]*"))

    def _is_ours(self, folder: Path) -> bool:
        try:
            return f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
        except OSError:
            return False


def rounds(arena: Arena, *, kills: int, die: random.Random) -> list[float]:
    """Start, wait a random while, kill; give how long each start took to run something anew."""
    recoveries = []
    for number in range(kills):
        before = arena.effects.stat().st_size
        process = arena.start()
        began = time.monotonic()
        life = die.uniform(0.2, 3.5)
        if number:
            arena.ask_for_runs()
        while time.monotonic() - began < life:
            if arena.effects.stat().st_size > before:
                recoveries.append(time.monotonic() - began)
                before = sys.maxsize
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return recoveries


def settle(arena: Arena) -> None:
    """Let one last process bring everything to its end, and stop it politely."""
    starts = arena.log.read_text().count(RUNNING)
    process = arena.start()
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.5)
        begun = arena.log.read_text().count(RUNNING) > starts  # before, a signal just ends it
        if begun and not any(row.state in UNFINISHED for row in arena.executions()):
            break
    process.send_signal(signal.SIGTERM)
    if process.wait(timeout=60) != 0:
        raise AssertionError(f"SIGTERM ended it with status {process.returncode}")


def judge(arena: Arena, *, kills: int, recoveries: list[float]) -> Figures:
    """Hold the ledger and the tasks' own record against the promises."""
    executions = arena.executions()
    attempts = [each for row in executions for each in arena.records.attempts(row.id)]
    starts = Counter(arena.effects.read_text().split("\n"))
    starts.pop("", None)
    wins = Counter(each.execution_id for each in attempts if each.ending == "succeeded")
    keys = Counter((row.scheduler_id, row.key) for row in executions)
    doubled = sum(many - 1 for counter in (starts, wins, keys) for many in counter.values())
    return Figures(
        kills=kills,
        executions=len(executions),
        attempts=len(attempts),
        cut_off=sum(each.ending == "lost" for each in attempts),
        retried=sum(row.attempt > 1 for row in executions),
        quarantined=sum(row.state is State.QUARANTINED for row in executions),
        lost=missing_instants(executions),
        doubled=doubled,
        stuck=sum(row.state in UNFINISHED for row in executions),
        orphans=arena.orphans(),
        recovery=median(recoveries) if recoveries else float("nan"),
    )


def missing_instants(executions: list[Execution]) -> int:
    """Count the minutes between a schedule's first and its last row that have none."""
    minutes: dict[str, set[datetime]] = {}
    for row in executions:
        if row.key.startswith("cron-"):
            covered = range(max(row.missed, 1))
            found = {row.due_at + timedelta(minutes=n) for n in covered}
            minutes.setdefault(row.schedule_name, set()).update(found)
    return sum(
        round((max(found) - min(found)) / timedelta(minutes=1)) + 1 - len(found)
        for found in minutes.values()
    )


def run(kills: int, seed: int) -> Figures:
    """Do all of it in a folder that is removed afterwards, unless a promise was broken."""
    folder = Path(tempfile.mkdtemp(prefix="kill-nine-"))
    arena = Arena(folder, seed)
    recoveries = rounds(arena, kills=kills, die=random.Random(seed))
    settle(arena)
    figures = judge(arena, kills=kills, recoveries=recoveries)
    arena.engine.dispose()
    if figures.faults:
        print(f"kept for a look: {folder}")
    else:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    return figures


def main() -> int:
    """Print the figures; the exit status is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    figures = run(arguments.kills, arguments.seed)
    for field, value in attrs.asdict(figures).items():
        print(f"{field:12} {value:.2f} s" if field == "recovery" else f"{field:12} {value}")
    return int(figures.faults > 0)


if __name__ == "__main__":
    sys.exit(main())

"""A place to be hurt in: a jobs file, a ledger, logs, and the tasks' own record."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from uuid import uuid4

import attrs
from sqlalchemy import URL, make_url

from cronhare.adapters.jobs.reader import read_jobs
from cronhare.adapters.sql.claims.store import SqlClaimStore
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.adapters.sql.records.store import SqlRecords
from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.adapters.system.clock import SystemClock
from cronhare.domain.execution import UNFINISHED, Execution
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.keys import manual_key
from cronhare.domain.schedules.planning import plan
from cronhare.ports.records import ExecutionFilter
from tests.faults.jobs import EXECUTOR, MARK, SCHEDULES, hold, jobs, once_a_year
from tests.ports import ids_of
from tests.services import databases, galera, rabbitmq
from tests.services.finding import wait_until

ROOT = Path(__file__).parents[2]


class Arena:
    """Starts processes, gives them work, and keeps what a judge has to know.

    *settings* choose other servers than SQLite and the broker in memory.
    """

    def __init__(self, folder: Path, seed: int, **settings: str) -> None:
        self.folder = folder
        self.settings = {
            "CRON_DATABASE_URL": f"sqlite:///{folder / 'ledger.sqlite3'}",
            "CRON_LOG_FORMAT": "json",
            "CRON_LOG_LEVEL": "DEBUG",  # what is fenced and what is sent again is said there
            **settings,
        }
        self.mark = f"{seed}-{uuid4()}"
        self.effects = folder / "effects"
        self.effects.touch()
        self.logs = folder / "logs"
        self.logs.mkdir()
        if os.environ.get(EXECUTOR):
            (folder / "running").mkdir()
            about = {"EFFECTS": str(self.effects), "HOLDS": str(folder), MARK: self.mark}
            self.settings |= about | {"PYTHONPATH": str(ROOT)}
        self.owed: set[tuple[str, datetime | str]] = set()
        self.asked = 0
        self.processes: list[subprocess.Popen[bytes]] = []
        self._numbers = count(1)
        text = jobs(effects=self.effects, mark=self.mark, holds=folder)
        (folder / "jobs.toml").write_text(text)
        self.engine = engine = open_engine(self.settings["CRON_DATABASE_URL"])
        upgrade(engine)
        clock = SystemClock()
        self.claims = SqlClaimStore(engine, clock)
        self.records = SqlRecords(engine, clock)
        self.schedules = SqlScheduleStore(engine, clock)

    @property
    def database(self) -> URL:
        return make_url(self.settings["CRON_DATABASE_URL"])

    def hold(self, name: str) -> None:
        """Let no first attempt of a group end from now on."""
        hold(self.folder, name).touch()

    def let_go(self, name: str) -> None:
        """Hold it no longer. Safe to repeat."""
        hold(self.folder, name).unlink(missing_ok=True)

    def start(self, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        """Start `cronhare up`, or another *command* of it, in a session of its own.

        *settings* are this process's alone.
        """
        program = str(Path(sys.executable).with_name("cronhare"))
        return self.start_program(
            program, *(command or ("up", "--no-web", "--jobs", "jobs.toml")), **settings
        )

    def start_module(
        self, module: str, *arguments: str, **settings: str
    ) -> subprocess.Popen[bytes]:
        """Start a program of the tests, as `start` does."""
        command = sys.executable, "-m", module, *arguments
        return self.start_program(*command, PYTHONPATH=str(ROOT), **settings)

    def start_program(self, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        environment = {name: text for name, text in os.environ.items() if "CRON_" not in name}
        name = f"{next(self._numbers):03}-{Path(command[0]).name}-{command[-1].lstrip('-')}"
        with (self.logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment | self.settings | settings,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.engine.dispose()

    def apply(self) -> None:
        """Save the schedules of the jobs file, as `cronhare apply` does from another process."""
        file = read_jobs(self.folder / "jobs.toml", policy=RetryPolicy())
        now, calendars = self.claims.now(), file.calendars
        self.schedules.save(file.drafts, source=file.source, now=now, calendars=calendars)

    def ask_for_runs(self, many: int = 5, *, of: Sequence[str] = ()) -> frozenset[int]:
        """Begin a few runs by hand, as `cronhare run` does from another process; gives their ids.

        They are runs *of* these schedules, or of the first *many*.

        A reconciler sends their messages, for the first time.
        """
        asked = set()
        ids = ids_of(self.schedules, of or [f"s{n}" for n in range(1, many + 1)])
        for name, scheduler_id in ids.items():
            key = manual_key(uuid4())
            now = self.claims.now()
            run = self.records.run_now(scheduler_id, key=key, params=None, now=now, node="by-hand")
            self.owed.add((name, key))
            asked.add(run.id)
        self.asked += len(asked)
        return frozenset(asked)

    def make_due(self, many: int, *, like: str = f"s{SCHEDULES}") -> frozenset[str]:
        """Let *many* new schedules be due in this very minute; gives their names.

        Their expressions say so, and no cursor is set by hand: another replica may plan them once
        more, from a look that is older than our plan.
        """
        [pattern] = self.schedules.schedules([like])
        assert pattern.draft is not None
        batch = next(self._numbers)
        names = [f"due-{batch}-{n}" for n in range(many)]
        minute = self.claims.now().replace(second=0, microsecond=0)
        by_number = attrs.evolve(pattern.draft, task_name=None, schedule=once_a_year(minute))
        drafts = [attrs.evolve(by_number, name=name) for name in names]
        self.schedules.save(drafts, source=None, now=minute - timedelta(seconds=1))
        self.owed |= {(name, minute) for name in names}
        wait_until(lambda: self._are_planned(names), seconds=30, what="planning")
        return frozenset(names)

    def _are_planned(self, names: list[str]) -> bool:
        """Plan them, unless a scheduler is doing so, out of our sight."""
        now = self.claims.now()
        self.claims.plan_edited(
            now=now, since=None, limit=1_000, node="by-hand", planner=lambda one: plan(one, now)
        )
        return all(one.next_due_at is not None for one in self.schedules.schedules(names))

    def executions(self) -> list[Execution]:
        """Read the ledger, without the system's own."""
        return self._without_system(ExecutionFilter(limit=1_000_000))

    def unfinished(self) -> list[Execution]:
        """Read what has not ended, a thousand at most."""
        return self._without_system(ExecutionFilter(states=UNFINISHED, limit=1_000))

    def _without_system(self, which: ExecutionFilter) -> list[Execution]:
        return [row for row in self.records.executions(which) if not row.task.is_system]

    def settled_at(self) -> datetime | None:
        """Tell the ledger's time, if nothing is under way then and nothing due is unclaimed."""
        now, due = self.claims.now(), self.claims.next_due()
        return None if (due is not None and due <= now) or self.unfinished() else now

    def starts(self, *, after: int = 0) -> Counter[tuple[int, int]]:
        """Read the tasks' own record: how often each attempt of each execution has begun.

        *after* so many bytes of it.
        """
        with self.effects.open() as record:
            record.seek(after)
            return Counter((int(id_), int(attempt)) for id_, attempt in map(str.split, record))

    def said(self) -> str:
        return "".join(path.read_text() for path in sorted(self.logs.glob("*.log")))

    def running(self) -> list[tuple[int, int]]:
        """Name the execution and the attempt of each process that carries our mark.

        An app's interpreter is of no execution, 0: what it runs is in a folder.
        """
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                environment = (folder / "environ").read_text(errors="replace").split("\0")
                variables = dict(each.partition("=")[::2] for each in environment)
                if variables.get(MARK) == self.mark:
                    id_, attempt = variables.get("CRON_EXECUTION_ID"), variables.get("CRON_ATTEMPT")
                    found.append((int(id_ or 0), int(attempt or 0)))
        for path in (self.folder / "running").glob("*"):
            pid, id_, attempt = path.name.split()
            if Path(f"/proc/{pid}").exists():
                found.append((int(id_), int(attempt)))
        return found


@contextmanager
def standing(
    folder: Path,
    broker: rabbitmq.Server,
    database: databases.Server,
    *,
    seed: int,
    **settings: str,
) -> Iterator[Arena]:
    """Give an arena with a vhost and a database of its own; whoever was started there is killed."""
    with broker.vhost() as broker_url, databases.database(database) as url:
        ledger = url.render_as_string(hide_password=False)
        if isinstance(database, galera.Cluster):
            ledger = database.addresses(str(url.database))
        arena = Arena(
            folder, seed, CRON_DATABASE_URL=ledger, CRON_BROKER_URL=broker_url, **settings
        )
        try:
            yield arena
        finally:
            arena.close()

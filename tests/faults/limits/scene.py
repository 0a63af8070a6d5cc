"""Three schedulers and four workers under limits of every kind, killed at moments of chance."""

import random
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import attrs

from cronhare.adapters.sql.limits import SqlLimitStore
from cronhare.adapters.system.clock import SystemClock
from cronhare.domain.retries.limits import BudgetPolicy, OnExhausted
from tests.faults.arena import standing
from tests.faults.house import PATIENCE, House, Process, Servers, has_begun, kill_nine
from tests.faults.jobs import MARK
from tests.faults.limits.jobs import QUEUES, write_jobs
from tests.faults.limits.judging import Figures, Pause, judge
from tests.services import databases, rabbitmq
from tests.services.finding import wait_until

MOST, WINDOW = 6, timedelta(seconds=5)

PAUSE = timedelta(seconds=3)

SETTINGS = {
    "CRON_LEASE_SECONDS": "3",
    "CRON_REFRESH_SECONDS": "1",
    "CRON_SHUTDOWN_GRACE_SECONDS": "5",
    "CRON_QUEUES": QUEUES,
    "CRON_RETRY_DELAY_MS": "1000",
    "CRON_RETRY_BUDGET": str(MOST),
    "CRON_RETRY_BUDGET_WINDOW_SECONDS": str(WINDOW.total_seconds()),
    "CRON_CIRCUIT_BREAKER": "on",
    "CRON_CIRCUIT_BREAKER_ERROR_RATE": "0.9",
    "CRON_CIRCUIT_BREAKER_MIN_ATTEMPTS": "4",
    "CRON_CIRCUIT_BREAKER_WINDOW_SECONDS": "20",
    "CRON_CIRCUIT_BREAKER_PAUSE_SECONDS": str(PAUSE.total_seconds()),
}

#: How often two die at once.
KILLED_TOGETHER = 0.3

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

#: Seconds until what was held back has had its turn, however busy the machine.
BACKLOG = 120.0


@attrs.define(kw_only=True)
class Scene(House):
    """Processes that are killed and started again, and what was seen of the breaker meanwhile."""

    between: tuple[datetime, datetime] = (LONG_AGO, LONG_AGO)
    kills: int = 0
    pauses: set[Pause] = attrs.field(factory=set)

    def start_scheduler(self, **settings: str) -> Process:
        """Start one with the graces of everyday."""
        self.schedulers.append(self.arena.start("scheduler", **settings))
        return self.schedulers[-1]

    def begin(self, *, seconds: int) -> None:
        """Let everybody begin, and have the schedules due from the next second on, for so many."""
        self.write(self.between)
        self.fill_up()
        for process in self.everybody:
            wait_until(partial(has_begun, process), seconds=PATIENCE, what="a process's start")
        begins = self.arena.claims.now().replace(microsecond=0) + timedelta(seconds=2)
        self.between = begins, begins + timedelta(seconds=seconds)
        self.write(self.between)
        self.arena.apply()

    def write(self, between: tuple[datetime, datetime]) -> None:
        mark = MARK, self.arena.mark
        text = write_jobs(record=self.arena.effects, mark=mark, between=between)
        (self.arena.folder / "jobs.toml").write_text(text)

    def live(self, *, seconds: float, kills_every: tuple[float, float]) -> None:
        """Kill somebody now and then for so many seconds; the task is broken in the middle."""
        began = time.monotonic()
        broken = self.arena.effects.with_name(f"{self.arena.effects.name}.broken")
        kill_at = self.die.uniform(*kills_every)
        while (passed := time.monotonic() - began) < seconds:
            self._look_at_breakers()
            if seconds * 0.15 < passed < seconds * 0.6:
                broken.touch()
            else:
                broken.unlink(missing_ok=True)
            if passed >= kill_at:
                self._kill(self.die.choice(self.schedulers if self.kills % 2 else self.workers))
                if self.die.random() < KILLED_TOGETHER:
                    self._kill(self.die.choice(self.everybody))
                kill_at = passed + self.die.uniform(*kills_every)
                self.fill_up()
            time.sleep(0.2)
        broken.unlink(missing_ok=True)

    def end(self) -> None:
        """Wait until all that was due has come to its end, and have everybody end in good order."""
        wait_until(self._is_over, seconds=BACKLOG, every=0.3, what="the end of all runs")
        self.stop()

    def _kill(self, victim: Process) -> None:
        kill_nine(victim)
        self.kills += 1

    def _look_at_breakers(self) -> None:
        limits = SqlLimitStore(self.arena.engine, SystemClock())
        for breaker in limits.breakers(limit=100):
            if breaker.probe_at is not None:
                ends = breaker.probe_at
                self.pauses.add(Pause(breaker.name or breaker.task, ends - PAUSE, ends))

    def _is_over(self) -> bool:
        self._look_at_breakers()
        now, due = self.arena.claims.now(), self.arena.claims.next_due()
        begun = now > self.between[1] and (due is None or due > now)
        return begun and not self.arena.unfinished()


def measure(
    folder: Path,
    broker: rabbitmq.Server,
    database: databases.Server,
    *,
    seed: int,
    seconds: int,
    kills_every: tuple[float, float],
    on_exhausted: OnExhausted,
) -> Figures:
    """Live through so many seconds and kills, wait for the end of all runs, and judge.

    Raises:
        TimeoutError: something did not end.
        AssertionError: somebody did not end well when asked to.
    """
    settings = SETTINGS | {"CRON_RETRY_BUDGET_ON_EXHAUSTED": on_exhausted.value}
    with standing(folder, broker, database, seed=seed, **settings) as arena:
        stage = Scene(
            arena=arena,
            servers=Servers(database, broker),
            die=random.Random(seed),
            many_schedulers=3,
            many_workers=4,
        )
        stage.begin(seconds=seconds)
        stage.live(seconds=seconds + 2, kills_every=kills_every)
        stage.fill_up()
        stage.end()
        return judge(
            arena,
            kills=stage.kills,
            budget=BudgetPolicy(most=MOST, window=WINDOW, on_exhausted=on_exhausted),
            pauses=stage.pauses,
            between=stage.between,
        )

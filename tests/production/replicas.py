"""Three schedulers and four workers meet a busy minute: each run once, by whomever."""

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import attrs
from sqlalchemy import URL

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import cron_key
from cronhare.domain.schedules.task import TaskRef
from tests.ports import ids_of
from tests.production.plant import PATIENCE, SCHEDULER, Plant
from tests.services import databases
from tests.services.finding import wait_until

SCHEDULERS, WORKERS, CONCURRENCY = 3, 4, 16

MINUTE = timedelta(minutes=1)

#: In which the schedules are written and planned, before their minute comes.
HEAD_START = timedelta(seconds=15)

JOBS = """
[tasks.true]
type = "worker"
id = 1
command = ["/bin/true"]
"""
TRUE = TaskRef("worker", 1)

#: MariaDB and MySQL count them alike, since the server's start; PostgreSQL counts no timeouts.
_LOCKS = (
    "SELECT SUM(COUNT) FROM information_schema.INNODB_METRICS "
    "WHERE NAME IN ('lock_deadlocks', 'lock_timeouts') HAVING COUNT(*) = 2"
)
_DEADLOCKS = "SELECT SUM(deadlocks) FROM pg_stat_database"
_PLANNED = "SELECT COUNT(*) FROM SchedulerPlan WHERE next_due_at = '{}'"
_SUCCEEDED = "SELECT COUNT(*) FROM SchedulerExecution WHERE state = 'succeeded'"
_EXECUTIONS = (
    "SELECT scheduler_id, execution_key, state, attempt, container_id, executed_at "
    "FROM SchedulerExecution WHERE task_type <> 'system'"
)
_ATTEMPTS = (
    "SELECT scheduler_id, ending, node, a.started_at, a.finished_at FROM ExecutionAttempt a "
    "JOIN SchedulerExecution e ON e.id = execution_id WHERE task_type <> 'system'"
)


@attrs.frozen(kw_only=True)
class Busy:
    """What a busy minute has shown; times are seconds after its beginning.

    *unlike* counts the schedules that have not exactly one execution under the minute's key, one
    attempt, one success and one start in the workers' logs. *locks* counts deadlocks and waits
    for a lock that were given up.
    """

    executions: int
    unlike: int
    troubles: int
    locks: int
    claimed_by: dict[str, int]
    run_by: dict[str, int]
    first_claimed: float
    first_started: float
    all_published: float
    all_succeeded: float

    @property
    def broken(self) -> int:
        """How often a promise was broken, be it that a replica had no share."""
        idle = SCHEDULERS - len(self.claimed_by) + WORKERS - len(self.run_by)
        return self.unlike + self.troubles + self.locks + idle


def measure(plant: Plant, *, schedules: int) -> Busy:
    """Let so many schedules be due in one coming minute, and wait until all have succeeded.

    Raises:
        TimeoutError: some of them did not.
    """
    for _ in range(SCHEDULERS):
        plant.start(*SCHEDULER)
    for _ in range(WORKERS):
        plant.start_worker(concurrency=CONCURRENCY, CRON_LOG_LEVEL="INFO")
    plant.wait_until_all_work(workers=WORKERS)
    before = locks(plant.arena.database)
    minute, ids = _save(plant, schedules)
    wait_until(
        lambda: plant.query(_SUCCEEDED) == [(schedules,)],
        seconds=2 * PATIENCE + schedules / 50,
        every=0.5,
        what=f"the success of {schedules} executions",
    )
    plant.stop()
    return _judge(plant, minute, ids, met=locks(plant.arena.database) - before)


def locks(url: URL) -> int:
    """Count the deadlocks, and the waits for a lock that were given up, since a server's start."""
    [[many]] = databases.run(url, _DEADLOCKS if databases.on_postgresql(url) else _LOCKS)
    return int(many)


def _save(plant: Plant, schedules: int) -> tuple[datetime, Collection[int]]:
    """Write schedules that are due in the same minute, once a year; give it, and their ids."""
    arena = plant.arena
    now = arena.claims.now()
    minute = (now + HEAD_START).replace(second=0, microsecond=0) + MINUTE
    text = f"{minute.minute} {minute.hour} {minute.day} {minute.month} *"
    names = [f"s{n}" for n in range(schedules)]
    drafts = [ScheduleDraft(name=name, task=TRUE, schedule=text) for name in names]
    arena.schedules.save(drafts, source=None, now=now)
    wait_until(
        lambda: plant.query(_PLANNED.format(_written(plant, minute))) == [(schedules,)],
        seconds=(minute - arena.claims.now()).total_seconds(),
        every=0.2,
        what=f"the planning of {schedules} schedules before their minute",
    )
    return minute, ids_of(arena.schedules, names).values()


def _written(plant: Plant, moment: datetime) -> datetime:
    """Give a moment as the database takes it in an operator's session."""
    on_postgresql = databases.on_postgresql(plant.arena.database)
    return moment if on_postgresql else moment.replace(tzinfo=None)


def _judge(plant: Plant, minute: datetime, ids: Collection[int], *, met: int) -> Busy:
    executions, attempts = plant.query(_EXECUTIONS), plant.query(_ATTEMPTS)
    as_promised = [row for row in executions if row[1:4] == (cron_key(minute), "succeeded", 1)]
    records = [
        Counter(row[0] for row in executions),
        Counter(row[0] for row in as_promised),
        Counter(row[0] for row in attempts),
        Counter(row[0] for row in attempts if row[1] == "succeeded"),
        Counter(line["scheduler_id"] for line in plant.lines("attempt.start")),
    ]
    ticks = [datetime.fromisoformat(line["time"]) for line in plant.lines("tick")]

    def after(moment: datetime) -> float:
        zone = UTC if moment.tzinfo is None else moment.tzinfo
        return (moment.replace(tzinfo=zone) - minute).total_seconds()

    return Busy(
        executions=len(executions),
        unlike=_unlike(set(ids), records),
        troubles=len(plant.troubles()),
        locks=met,
        claimed_by=Counter(row[4] for row in executions),
        run_by=Counter(row[2] for row in attempts),
        first_claimed=after(min(row[5] for row in executions)),
        first_started=after(min(row[3] for row in attempts)),
        all_published=after(max(ticks)),
        all_succeeded=after(max(row[4] for row in attempts)),
    )


def _unlike(ids: set[int], records: list[Counter[int]]) -> int:
    every = ids.union(*records)
    return sum(any(record[id_] != (id_ in ids) for record in records) for id_ in every)


def tell(busy: Busy) -> None:
    print(
        f"\n{busy.executions} executions, {busy.unlike} not exactly once, {busy.troubles} warnings "
        f"and errors, {busy.locks} deadlocks and lock timeouts\n"
        f"claimed by {_split(busy.claimed_by)}; run by {_split(busy.run_by)}\n"
        f"after the minute: first claimed {busy.first_claimed * 1000:.0f} ms, first started "
        f"{busy.first_started * 1000:.0f} ms, all published {busy.all_published:.2f} s, all "
        f"succeeded {busy.all_succeeded:.2f} s"
    )


def _split(shares: dict[str, int]) -> str:
    return " + ".join(str(many) for many in sorted(shares.values(), reverse=True))

"""What README.md promises, held against the ledger and the tasks' own record."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from statistics import median

import attrs
from sqlalchemy import select

from cronhare.adapters.sql.tables.tables import attempts
from cronhare.domain.execution import UNFINISHED, Execution, State
from tests.faults.arena import Arena
from tests.faults.jobs import SCHEDULES
from tests.faults.saying import said

MINUTE = timedelta(minutes=1)

#: An execution's id and a number.
Attempt = tuple[int, int]

#: A schedule's name, and a due instant of it or the key of a run by hand.
Identity = tuple[str, datetime | str]


@attrs.frozen(kw_only=True)
class Figures:
    """What a number of cycles, each with its fault, has shown. *recovery* is a median, in seconds.

    *bugs* are the faults of its own that a process told of; *republished* leaves out the runs by
    hand, whose messages nobody but a reconciler sends.
    """

    cycles: int
    executions: int
    attempts: int
    cut_off: int
    retried: int
    quarantined: int
    lost: int
    doubled: int
    stuck: int
    orphans: int
    bugs: int
    fenced: int
    republished: int
    recovery: float

    @property
    def broken(self) -> int:
        return self.lost + self.doubled + self.stuck + self.orphans + self.bugs


def judge(
    arena: Arena, *, cycles: int, recoveries: Sequence[float], settled_at: datetime
) -> Figures:
    """Hold what was claimed before *settled_at*, when all had ended, against the promises."""
    running = arena.running()  # before the ledger is read: whatever begins later is known there
    ledger = arena.executions()
    executions = [row for row in ledger if row.executed_at < settled_at]
    later = {row.id for row in ledger if row.executed_at >= settled_at}
    endings = {one: ending for one, ending in _endings(arena) if one[0] not in later}
    starts = Counter({one: many for one, many in arena.starts().items() if one[0] not in later})
    says = said(arena.logs)
    return Figures(
        cycles=cycles,
        executions=len(executions),
        attempts=len(endings),
        cut_off=sum(ending == "lost" for ending in endings.values()),
        retried=sum(row.attempt > 1 for row in executions),
        quarantined=sum(row.state is State.QUARANTINED for row in executions),
        lost=_lost(arena, settled_at, executions, endings, starts),
        doubled=_doubled(executions, endings, starts),
        stuck=sum(row.state in UNFINISHED for row in executions) + _stuck_plans(arena, settled_at),
        orphans=sum(id_ not in later for id_, _ in running),
        bugs=says.bugs,
        fenced=says.fenced,
        republished=max(says.sent - arena.asked, 0),
        recovery=median(recoveries) if recoveries else float("nan"),
    )


def _endings(arena: Arena) -> list[tuple[Attempt, str | None]]:
    columns = attempts.c.execution_id, attempts.c.attempt, attempts.c.ending
    with arena.engine.connect() as connection:
        rows = connection.execute(select(*columns)).all()
    return [((id_, attempt), ending) for id_, attempt, ending in rows]


def _lost(
    arena: Arena,
    settled_at: datetime,
    executions: Sequence[Execution],
    endings: dict[Attempt, str | None],
    starts: Counter[Attempt],
) -> int:
    """Count what was owed and is in no row, and what is said to be done and is not."""
    found = set(_identities(executions))
    owed = arena.owed | set(_every_minute(arena, settled_at))
    done = {one for one, ending in endings.items() if ending == "succeeded"}
    return len(owed - found) + len(done - starts.keys())


def _doubled(
    executions: Sequence[Execution], endings: dict[Attempt, str | None], starts: Counter[Attempt]
) -> int:
    """Count what happened twice, and what began without the ledger's knowledge."""
    claims = Counter(_identities(executions))
    wins = Counter(id_ for (id_, _), ending in endings.items() if ending == "succeeded")
    twice = sum(many - 1 for counter in (claims, starts, wins) for many in counter.values())
    return twice + len(starts.keys() - endings.keys())


def _identities(executions: Sequence[Execution]) -> Iterator[Identity]:
    """Say what the rows stand for: a skipped one may stand for a row of minutes."""
    for row in executions:
        if not row.key.startswith("cron-"):
            yield row.schedule_name, row.key
            continue
        for n in range(row.missed if row.last_due_at else 1):
            yield row.schedule_name, row.due_at + n * MINUTE


def _every_minute(arena: Arena, settled_at: datetime) -> Iterator[Identity]:
    """Say what the jobs file owes: each minute between a schedule's making and its cursor.

    The schedulers go on after *settled_at*: what they claim since is nobody's debt here.
    """
    for schedule in arena.schedules.schedules([f"s{n}" for n in range(1, SCHEDULES + 1)]):
        minute = schedule.created_at.replace(second=0, microsecond=0) + MINUTE
        while schedule.next_due_at is not None and minute < min(schedule.next_due_at, settled_at):
            yield schedule.name, minute
            minute += MINUTE


def _stuck_plans(arena: Arena, settled_at: datetime) -> int:
    """Count the cursors that stand where nothing should be due any more."""
    every = arena.schedules.schedules()
    return sum(one.next_due_at is not None and one.next_due_at < settled_at for one in every)

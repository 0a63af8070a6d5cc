"""What the limits promise, held against the tasks' own record and the ledger."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
from sqlalchemy import select

from cronhare.adapters.sql.tables.tables import attempts
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.retries.limits import ACTIVATED, BudgetPolicy, OnExhausted
from cronhare.domain.retries.outcome import Ending
from tests.faults.arena import Arena
from tests.faults.limits.jobs import LIMITS, Job, all_jobs
from tests.faults.saying import lines, said

#: An execution's id and a number.
Attempt = tuple[int, int]

JOBS = {job.name: job for job in all_jobs()}

#: What the clocks of two processes may differ by on one host, while it is busy.
DOUBT = timedelta(milliseconds=500)

#: Ends that ask the budget and the breaker for a retry.
BAD = {Ending.FAILED.value, Ending.CRASHED.value, Ending.TIMED_OUT.value, Ending.LOST.value}


@attrs.frozen(kw_only=True)
class Run:
    """What an attempt wrote down of itself; without an end it was killed."""

    name: str
    attempt: Attempt
    begins: datetime
    ends: datetime | None = None


def read_record(path: Path) -> tuple[list[Run], int]:
    """Read the record, and count what is in it twice."""
    begins, ends, twice = dict[Attempt, Run](), dict[Attempt, datetime](), 0
    for line in path.read_text().splitlines():
        seconds, what, name, id_, number = line.split()
        at, attempt = datetime.fromtimestamp(float(seconds), UTC), (int(id_), int(number))
        if what == "begins":
            twice += attempt in begins
            begins[attempt] = Run(name=name, attempt=attempt, begins=at)
        else:
            ends[attempt] = at
    return [attrs.evolve(one, ends=ends.get(one.attempt)) for one in begins.values()], twice


def most_at_once(spans: Iterable[tuple[datetime, datetime]]) -> int:
    """Count how many of some spans of time overlap at most; one that ends begins no overlap."""
    steps = sorted(step for begins, ends in spans for step in ((begins, 1), (ends, -1)))
    most = now = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


def spans_by(
    runs: Collection[Run],
    group: Callable[[Run], str | None],
    given_up: Mapping[Attempt, datetime],
) -> dict[str, list[tuple[datetime, datetime]]]:
    """Give the spans of runs by groups. What was killed keeps its place until it is *given_up*."""
    found = defaultdict[str, list[tuple[datetime, datetime]]](list)
    for run in runs:
        if (name := group(run)) is not None:
            ends = run.ends or given_up.get(run.attempt, run.begins)
            found[name].append((run.begins, max(run.begins, ends)))
    return found


@attrs.frozen
class Pause:
    """How long the circuit breaker of a task was open, before it let a probe through."""

    task: str
    begins: datetime
    ends: datetime


@attrs.frozen(kw_only=True)
class Figures:
    """What was seen, and how often each promise was broken.

    *over* counts what ran beyond a limit at once, *granted* retries beyond the budget of a queue,
    *retried* those that an open breaker did not stop, *told_twice* what two nodes said of one,
    *shut* runs on a day that a calendar excludes.
    """

    kills: int
    executions: int
    runs: int
    cut_off: int
    let_go: int
    cancelled: int
    skipped: int
    unbudgeted: int
    stopped: int
    openings: int
    at_once: dict[str, int]
    lost: int
    doubled: int
    stuck: int
    over: int
    granted: int
    retried: int
    told_twice: int
    shut: int
    orphans: int
    bugs: int

    @property
    def broken(self) -> int:
        promises = self.over, self.granted, self.retried, self.told_twice, self.shut
        return self.lost + self.doubled + self.stuck + self.orphans + self.bugs + sum(promises)


@attrs.frozen(kw_only=True)
class Facts:
    executions: Sequence[Execution]
    endings: Mapping[Attempt, tuple[str | None, datetime | None]]
    runs: Sequence[Run]
    twice: int

    @classmethod
    def of(cls, arena: Arena) -> "Facts":
        columns = (
            attempts.c.execution_id,
            attempts.c.attempt,
            attempts.c.ending,
            attempts.c.finished_at,
        )
        with arena.engine.connect() as connection:
            rows = connection.execute(select(*columns)).all()
        runs, twice = read_record(arena.effects)
        return cls(
            executions=arena.executions(),
            endings={(row[0], row[1]): (row[2], row[3]) for row in rows},
            runs=runs,
            twice=twice,
        )

    def given_up(self) -> dict[Attempt, datetime]:
        """Say when the ledger gave up or recorded each attempt."""
        return {one: at - DOUBT / 10 for one, (_, at) in self.endings.items() if at is not None}

    def grants(self) -> Iterator[tuple[Execution, datetime, datetime]]:
        """Give the retries that were granted and began: whose, when it failed, when it began."""
        of = {one.id: one for one in self.executions}
        begun = {run.attempt: run.begins for run in self.runs}
        for (id_, number), (ending, at) in self.endings.items():
            begins = begun.get((id_, number + 1))
            if ending in BAD and at is not None and begins is not None:
                yield of[id_], at, begins


def judge(
    arena: Arena,
    *,
    kills: int,
    budget: BudgetPolicy,
    pauses: Collection[Pause],
    between: tuple[datetime, datetime],
) -> Figures:
    orphans = len(arena.running())
    facts = Facts.of(arena)
    at_once = at_once_of(facts)
    reasons = Counter[str]()
    for one in facts.executions:
        reasons["budget"] += "retry budget" in (one.last_error or "")
        reasons["breaker"] += ACTIVATED in (one.last_error or "")
    says = said(arena.logs)
    states = Counter(one.state for one in facts.executions)
    return Figures(
        kills=kills,
        executions=len(facts.executions),
        runs=len(facts.runs),
        cut_off=sum(ending == Ending.LOST for ending, _ in facts.endings.values()),
        let_go=says.actions["gate.passed"],
        cancelled=states[State.CANCELLED],
        skipped=states[State.SKIPPED],
        unbudgeted=reasons["budget"],
        stopped=reasons["breaker"],
        openings=len(pauses),
        at_once=at_once,
        lost=lost_of(facts, between),
        doubled=doubled_of(facts),
        stuck=sum(one.state in UNFINISHED for one in facts.executions) + _stuck_plans(arena),
        over=over(at_once),
        granted=beyond(budget, facts),
        retried=retried_in(pauses, facts),
        told_twice=_told_twice(arena),
        shut=sum(JOBS[run.name].shut for run in facts.runs),
        orphans=orphans,
        bugs=says.bugs,
    )


def at_once_of(facts: Facts) -> dict[str, int]:
    """Say how many ran at a time at most, with each key, and of each schedule that runs alone."""

    def group(run: Run) -> str | None:
        job = JOBS[run.name]
        return job.name if job.alone else job.key

    spans = spans_by(facts.runs, group, facts.given_up())
    return {name: most_at_once(each) for name, each in sorted(spans.items())}


def over(at_once: Mapping[str, int]) -> int:
    return sum(max(most - LIMITS.get(name, 1), 0) for name, most in at_once.items())


def _identities(executions: Sequence[Execution]) -> Iterator[tuple[str, datetime]]:
    """Say what the rows stand for: a skipped one may stand for a row of due instants."""
    for row in executions:
        for n in range(row.missed if row.last_due_at else 1):
            yield row.schedule_name, row.due_at + n * JOBS[row.schedule_name].step


def _owed(job: Job, between: tuple[datetime, datetime]) -> Iterator[tuple[str, datetime]]:
    begins, ends = between
    moment = begins + (-int(begins.timestamp()) % job.every) * timedelta(seconds=1)
    while moment <= ends:
        yield job.name, moment
        moment += job.step


def lost_of(facts: Facts, between: tuple[datetime, datetime]) -> int:
    """Count what was owed and is in no row, and what is said to be done and did not begin."""
    owed = {one for job in JOBS.values() for one in _owed(job, between)}
    done = {one for one, (ending, _) in facts.endings.items() if ending == Ending.SUCCEEDED}
    began = {run.attempt for run in facts.runs}
    return len(owed - set(_identities(facts.executions))) + len(done - began)


def doubled_of(facts: Facts) -> int:
    claims = Counter(_identities(facts.executions))
    wins = Counter(
        id_ for (id_, _), (ending, _) in facts.endings.items() if ending == Ending.SUCCEEDED
    )
    twice = sum(many - 1 for counter in (claims, wins) for many in counter.values())
    unknown = {run.attempt for run in facts.runs} - facts.endings.keys()
    return twice + facts.twice + len(unknown)


def _stuck_plans(arena: Arena) -> int:
    """Count the schedules that are still to be due, though their time is over."""
    return sum(one.next_due_at is not None for one in arena.schedules.schedules(list(JOBS)))


def beyond(budget: BudgetPolicy, facts: Facts) -> int:
    """Count the retries beyond the budget of their queue.

    Where the others fail, a grant has the time of the failure, and no window has too many. Where
    they are deferred it has not: then no more may have begun than all windows so far allow.
    """
    by_queue = defaultdict[str, list[tuple[datetime, datetime]]](list)
    for one, at, begins in facts.grants():
        by_queue[one.queue].append((at, begins))
    return sum(_beyond_one(budget, sorted(grants)) for grants in by_queue.values())


def _beyond_one(budget: BudgetPolicy, grants: Sequence[tuple[datetime, datetime]]) -> int:
    if budget.on_exhausted is OnExhausted.FAIL:
        later = grants[budget.most :]
        between = [after[0] - before[0] for before, after in zip(grants, later, strict=False)]
        return sum(each < budget.window - DOUBT for each in between)
    begun = sorted(begins for _, begins in grants)
    allowed = [
        budget.most * (1 + (begins + DOUBT - grants[0][0]) // budget.window) for begins in begun
    ]
    return sum(number > most for number, most in enumerate(allowed, start=1))


def retried_in(pauses: Collection[Pause], facts: Facts) -> int:
    """Count the retries of what failed while the breaker of its task was open."""
    return sum(
        one.task_name == pause.task and pause.begins + DOUBT < at < pause.ends - DOUBT
        for one, at, _ in facts.grants()
        for pause in pauses
    )


def _told_twice(arena: Arena) -> int:
    """Count what two nodes said of one breaker: that it has opened until the same second."""
    told = Counter(
        line["message"] for line in lines(arena.logs) if line.get("action") == "breaker.opened"
    )
    return sum(many - 1 for many in told.values())


def tell(figures: Figures) -> str:
    values: dict[str, Any] = attrs.asdict(figures)
    return ", ".join(f"{name} {value}" for name, value in values.items())

"""What becomes of an attempt that has ended: by which policy, and within which limits.

Whoever records ends of attempts, or starts of what an outage held up, keeps the limits locked and
asks here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, Protocol

import attrs
import msgspec

from ..execution import UNFINISHED, Execution, State
from ..retries.limits import (
    ACTIVATED,
    UNLIMITED,
    Breaker,
    BreakerPolicy,
    BreakerState,
    Budget,
    BudgetPolicy,
    Changed,
    LimitChange,
    RetryLimits,
    as_asked,
    ask_budget,
    say_budget,
)
from ..retries.outcome import Crash, CrashPolicy, Ending, Outcome
from ..retries.policy import RetryPolicy
from ..retries.retry import Fail, GiveBack, RetryAfter, Verdict, decide
from ..schedules.catalog import Catalog
from ..schedules.keys import Trigger, trigger_of
from ..schedules.planning import GRACE
from ..schedules.task import Task
from ..texts.moments import say_moment
from ..texts.words import counted
from .gates import gates_of
from .transitions import defer, overruled


@attrs.frozen(eq=False)
class RetryPolicies:
    """The schedule's own policy, else its task's in the jobs file, else the *environment*'s.

    Where none of them says what a poison pill is, the environment's *crashes* does. A schedule of a
    jobs file has its task's policy in its row: so a process without that file decides alike. The
    *limits* hold for all retries, and *late* for what an outage held up before its first attempt.
    """

    environment: RetryPolicy
    catalog: Catalog = attrs.field(factory=Catalog)
    limits: RetryLimits = UNLIMITED
    crashes: CrashPolicy = attrs.field(factory=CrashPolicy)
    late: BudgetPolicy | None = None

    def of(self, execution: Execution) -> RetryPolicy:
        if execution.retry is not None:
            return execution.retry
        named = {"source": execution.source, "name": execution.task_name, "topic": execution.topic}
        task = self.catalog.find(execution.task, **named)
        return (task.policy.retry if isinstance(task, Task) else None) or self.environment

    def crashes_of(self, execution: Execution) -> CrashPolicy:
        return self.of(execution).crashes or self.crashes

    def judge(
        self,
        execution: Execution,
        outcome: Outcome,
        *,
        now: datetime,
        random_fraction: float,
        own_wait: timedelta | None = None,
        restarts: Sequence[Crash] = (),
    ) -> Verdict:
        return decide(
            outcome,
            deaths=execution.deaths,
            policy=self.of(execution),
            crash_policy=self.crashes_of(execution),
            crashes=execution.crashes_after(outcome.ending, now=now),
            now=now,
            random_fraction=random_fraction,
            own_wait=own_wait,
            restarts=restarts,
            expires_at=execution.expires_at,
        )


#: Endings that are the task's own failures. A lost worker says nothing of its tasks.
FAILURES: Final = frozenset({Ending.FAILED, Ending.TIMED_OUT, Ending.CRASHED})


@attrs.frozen(kw_only=True)
class AttemptEnd:
    """The *ending* of an attempt, its *execution* as it stands, and the *verdict* on it.

    *limits* are those of its retry.
    """

    execution: Execution
    ending: Ending
    verdict: Verdict
    limits: RetryLimits

    @property
    def retry(self) -> RetryAfter | None:
        verdict = overruled(self.execution, self.verdict)
        return verdict if isinstance(verdict, RetryAfter) else None

    @property
    def goes_on(self) -> bool:
        return isinstance(overruled(self.execution, self.verdict), RetryAfter | GiveBack)

    @property
    def budget(self) -> BudgetPolicy | None:
        return None if self.retry is None else self.limits.budget

    @property
    def has_failed(self) -> bool:
        return self.ending in FAILURES and not isinstance(self.verdict, GiveBack)

    @property
    def breaker(self) -> BreakerPolicy | None:
        """The breaker that is asked; none for the success of a first attempt, which is no probe."""
        concerns = self.has_failed or self.retry is not None or self.execution.attempt > 1
        return self.limits.breaker if concerns else None

    @property
    def task(self) -> str:
        return str(self.execution.task)


@attrs.frozen
class Limited:
    """The *verdict* that the limits leave; only *changes* of these are to be told."""

    verdict: Verdict
    changes: tuple[LimitChange, ...] = ()


class Evidence(Protocol):
    """What the ledger knows of a task; asked for only where a breaker depends on it."""

    def successes(self, of: Execution, *, since: datetime, enough: int) -> int:
        """Count the executions of the same task that succeeded *since* then, up to *enough*."""
        ...

    def state_of(self, execution_id: int) -> State | None:
        """Tell the state of a probe; None if it is gone."""
        ...


def queues_asked(ends: Iterable[AttemptEnd]) -> list[str]:
    """Give the queues whose budgets are asked, in the order in which the ledger locks them."""
    return sorted({end.execution.queue for end in ends if end.budget is not None})


def tasks_asked(ends: Iterable[AttemptEnd]) -> list[str]:
    """Give the tasks whose breakers are asked, likewise. They are locked after the budgets."""
    return sorted({end.task for end in ends if end.breaker is not None})


class RetryJudge:
    """Rules on the ends of a batch; *budgets* and *breakers* are to be kept as it leaves them."""

    def __init__(
        self,
        ends: Iterable[AttemptEnd],
        *,
        budgets: Iterable[Budget],
        breakers: Iterable[Breaker],
        evidence: Evidence,
    ) -> None:
        self._budgets = {budget.queue: budget for budget in budgets}
        self._breakers = {breaker.task: breaker for breaker in breakers}
        self._evidence = evidence
        self._succeeding = Counter(end.task for end in ends if end.ending is Ending.SUCCEEDED)
        self._changes: list[LimitChange] = []

    @property
    def budgets(self) -> Sequence[Budget]:
        return [self._budgets[queue] for queue in sorted(self._budgets)]

    @property
    def breakers(self) -> Sequence[Breaker]:
        return [self._breakers[task] for task in sorted(self._breakers)]

    def rule(self, end: AttemptEnd, *, now: datetime) -> Limited:
        """Rule on one end: its breaker is asked first, and what that lets fail takes no budget."""
        self._changes = []
        verdict, retry, policy = end.verdict, end.retry, end.budget
        if end.breaker is not None and not self._may_retry(end, end.breaker, now):
            verdict = Fail(ACTIVATED)
        elif retry is not None and policy is not None:
            answer = ask_budget(self._budget_of(end, policy, now), policy, retry, now=now)
            self._budgets[end.execution.queue], verdict = answer.budget, answer.verdict
            if answer.change is not None:
                self._changes.append(answer.change)
        return Limited(verdict, tuple(self._changes))

    def _budget_of(self, end: AttemptEnd, policy: BudgetPolicy, now: datetime) -> Budget:
        queue = end.execution.queue
        return as_asked(queue, self._budgets.get(queue), policy, now=now)

    def _may_retry(self, end: AttemptEnd, policy: BreakerPolicy, now: datetime) -> bool:
        known = self._breakers.get(end.task)
        if known is None and not end.has_failed:
            return True
        name = end.execution.task_name
        before = known or Breaker(task=end.task, name=name, window=policy.window, last_at=now)
        after, may_retry = self._judge(self._in_time(before, end, now), end, policy, now)
        if after is not known:
            self._breakers[end.task] = attrs.evolve(after, last_at=now)
        return may_retry or end.retry is None

    def _in_time(self, breaker: Breaker, end: AttemptEnd, now: datetime) -> Breaker:
        """Close what time has closed, or a success that nobody has noted, as first attempts'."""
        if breaker.opened_at is None:
            return breaker
        is_proven = breaker.probe is not None and (
            self._succeeding[end.task] > 0
            or self._evidence.state_of(breaker.probe) is State.SUCCEEDED
            or self._evidence.successes(end.execution, since=breaker.last_at, enough=1) > 0
        )
        if not is_proven and breaker.state(now) is not BreakerState.CLOSED:
            return breaker
        return self._close(breaker, breaker.opened_at, proven=is_proven)

    def _judge(
        self, breaker: Breaker, end: AttemptEnd, policy: BreakerPolicy, now: datetime
    ) -> tuple[Breaker, bool]:
        if breaker.probe == end.execution.id:
            return self._after_probe(breaker, end, policy, now)
        state, budget = breaker.state(now), end.budget
        if state is BreakerState.CLOSED:
            return self._count(breaker, end, policy, now) if end.has_failed else (breaker, True)
        if end.retry is None or state is BreakerState.OPEN or self._has_probe(breaker, now):
            return breaker, False
        # All others of its task would wait with a probe that is deferred.
        if budget is not None and self._budget_of(end, budget, now).free_at(now) > now:
            return breaker, False
        probing = breaker.probing(end.execution.id, policy, now)
        text = f"is half open: a retry of execution {probing.probe} is its probe"
        self._tell(Changed.BREAKER_PROBED, breaker, f" {text}")
        return probing, True

    def _has_probe(self, breaker: Breaker, now: datetime) -> bool:
        if breaker.probe is None or breaker.probe_at is None or now >= breaker.probe_at:
            return False
        return self._evidence.state_of(breaker.probe) in UNFINISHED

    def _after_probe(
        self, breaker: Breaker, end: AttemptEnd, policy: BreakerPolicy, now: datetime
    ) -> tuple[Breaker, bool]:
        """Judge by the probe; one whose worker was lost, or shut down, tries again."""
        if end.ending is Ending.SUCCEEDED:
            return self._close(breaker, breaker.opened_at or now, proven=True), True
        if end.has_failed:
            again = attrs.evolve(breaker, probe=None, probe_at=now + policy.pause)
            return self._opened(again, "its probe failed"), False
        return (breaker if end.goes_on else attrs.evolve(breaker, probe=None)), True

    def _count(
        self, breaker: Breaker, end: AttemptEnd, policy: BreakerPolicy, now: datetime
    ) -> tuple[Breaker, bool]:
        counted = breaker.count(policy, now)
        if not counted.is_to_be_judged(policy, now):
            return counted, True
        succeeded = self._succeeding[end.task] + self._evidence.successes(
            end.execution, since=policy.since(now), enough=policy.enough(counted.failing)
        )
        judged = counted.judged(policy, succeeded, now)
        if judged.opened_at is None:
            return judged, True
        attempts = judged.failed + judged.succeeded
        return self._opened(judged, f"{judged.failed:,} of {attempts:,} attempts failed"), False

    def _opened(self, breaker: Breaker, why: str) -> Breaker:
        until = say_moment(breaker.probe_at) if breaker.probe_at else "now"
        self._tell(Changed.BREAKER_OPENED, breaker, f" is open until {until}: {why}")
        return breaker

    def _close(self, breaker: Breaker, opened_at: datetime, *, proven: bool) -> Breaker:
        why = "its probe succeeded" if proven else "nothing failed for long"
        text = f", open since {say_moment(opened_at)}, is closed: {why}"
        self._tell(Changed.BREAKER_CLOSED, breaker, text)
        return breaker.closed()

    def _tell(self, what: Changed, of: Breaker, text: str) -> None:
        self._changes.append(LimitChange(what, of.task, f"Circuit breaker of {of.said}{text}"))


#: What a worker misses by less is no outage: a restart takes seconds, and so few retries come due
#: meanwhile that their own spread is enough.
OUTAGE: Final = timedelta(minutes=1)


@attrs.frozen(kw_only=True)
class CatchUp:
    """How what an outage held up catches up: retries at the rate of *budget*, that of their queue.

    First attempts do at that of *late*, over all queues. None of either is no limit. What came due
    while workers, broker or ledger were away would start together, and end the server that it
    failed at once more (S2.12 in docs/compatibility.md, ADR 18).

    The worker that asks had a free place at *free_at*, and nothing came: so what was due long
    before did not wait for a place. What only waits behind others is never deferred, or in a queue
    that stays long it would be deferred for ever.
    """

    budget: BudgetPolicy | None
    free_at: datetime
    late: BudgetPolicy | None = None

    def held_up(self, asked: Iterable[Execution]) -> Sequence[Execution]:
        """Give what an outage held up, what was due first the first.

        What was given back at a shutdown, and had not failed before, is no retry.
        """
        due = {
            one.id: one.next_attempt_at
            for one in asked
            if one.next_attempt_at is not None and self._asked_of(one) is not None
        }
        late = [one for one in asked if one.id in due and due[one.id] < self.free_at - OUTAGE]
        return sorted(late, key=lambda one: (due[one.id], one.due_at))

    def key_of(self, one: Execution) -> str:
        return one.queue if one.state is State.RETRYING else LATE_RUNS

    def _asked_of(self, one: Execution) -> BudgetPolicy | None:
        if one.state is State.RETRYING:
            return self.budget if one.deaths else None
        return self.late if self.late and is_first_attempt_of_due_instant(one) else None

    def spread(
        self, held_up: Iterable[Execution], budgets: Iterable[Budget], *, now: datetime
    ) -> tuple[dict[str, Budget], dict[int, Execution]]:
        """Give each its place; answers the *budgets*, by queue, and those that have to wait, by id.

        A retry that was granted once is never lost to a spent budget: it waits, however far its
        place is, and whatever `on_exhausted` says.
        """
        after, waiting = {budget.queue: budget for budget in budgets}, dict[int, Execution]()
        for one in held_up:
            if (policy := self._asked_of(one)) is None:
                continue
            key = self.key_of(one)
            budget = as_asked(key, after.get(key), policy, now=now)
            place = budget.staggered_at(now)
            after[key] = budget = budget.granted(place, now=now)
            if place > now:
                why = f"an outage held it up, and {say_budget(budget)} is spent"
                waiting[one.id] = deferred = defer(one, place, why=why)
                if key == LATE_RUNS:
                    turn = msgspec.structs.replace(deferred, last_error=say_turn(budget))
                    waiting[one.id] = turn
        return after, waiting


#: What their budget is called among those of queues: none has such a name.
LATE_RUNS: Final = "* late runs"

#: How the reason begins for which one waits.
CATCHES_UP: Final = "catches up: "


def claimed_late(claimed: Iterable[Execution]) -> Sequence[Execution]:
    """Give those that were claimed later than their grace, in the order of their due times."""
    late = (one for one in claimed if one.executed_at - one.due_at > GRACE)
    return sorted((one for one in late if one.state is not State.SKIPPED), key=attrgetter("due_at"))


def with_places(
    late: Iterable[Execution], budget: Budget, *, now: datetime
) -> tuple[Budget, Mapping[tuple[int, str], Execution]]:
    """Give each its place; answers the budget after that, and those that wait for theirs.

    The place counts instead of the schedule's jitter, which spreads less than this.
    """
    waiting = dict[tuple[int, str], Execution]()
    for run in late:
        place = budget.staggered_at(now)
        budget = budget.granted(place, now=now)
        waiting[run.scheduler_id, run.key] = msgspec.structs.replace(
            run,
            next_attempt_at=place,
            check_at=place,
            last_error=say_turn(budget) if place > now else None,
        )
    return budget, waiting


def say_turn(budget: Budget) -> str:
    runs = counted(budget.most, "late run")
    return f"{CATCHES_UP}CRON_CATCH_UP_BUDGET lets {runs} begin in a minute"


def waits_for_its_turn(run: Execution) -> bool:
    return run.last_error is not None and run.last_error.startswith(CATCHES_UP)


def is_first_attempt_of_due_instant(run: Execution) -> bool:
    """Tell whether its start may have been held up by an outage: by no gate, person or replay."""
    return (
        run.attempt == 1
        and run.state in {State.CLAIMED, State.PUBLISHED}
        and trigger_of(run.key) is Trigger.TIME
        and not gates_of(run)
    )

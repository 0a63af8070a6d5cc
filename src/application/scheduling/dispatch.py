"""From a due instant to a message in a queue: plan, claim, publish."""

import logging
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from contextvars import copy_context
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Self

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.retry_limits import waits_for_its_turn
from cronhare.domain.nodes import has_passed
from cronhare.domain.retries.policy import Waits
from cronhare.domain.schedules.planning import (
    FULL_COMPARISON,
    GRACE,
    HEAD_START,
    LATE_COMMITS,
    Plan,
    Planned,
    plan,
)
from cronhare.domain.schedules.skips import SkipKind, skip_kind
from cronhare.ports.claims import Batch, ClaimStorePort
from cronhare.ports.system import NOT_TRACED, SILENT, MetricsPort, TracingPort

from ..logs import say
from ..outcome_log import log_late_runs, log_let_go
from ..publish import ExecutionPublisher, PublishResult

log = logging.getLogger(__name__)

#: So many batches are under way at a time: one is sent while another is marked as published. Not
#: more, so that memory stays flat.
AT_ONCE: Final = 2


@attrs.define(eq=False)
class PublishPipeline:
    """The publishing side of one tick; leaving it waits for all its batches."""

    _publisher: ExecutionPublisher
    _executor: Executor
    _now: datetime = attrs.field(kw_only=True)
    published: int = attrs.field(init=False, default=0)
    _under_way: deque[Future[PublishResult]] = attrs.field(init=False, factory=deque)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        wait(self._under_way)
        errors = [each.exception() for each in self._under_way]
        self.published += sum(
            each.result().published
            for each, its_error in zip(self._under_way, errors, strict=True)
            if its_error is None
        )
        failed = [each for each in (error, *errors) if each is not None]
        for another in failed[1:]:
            text = "Another batch could not be published either"
            log.error("%s", text, exc_info=another, extra={"action": "publish.failed"})
        if failed and failed[0] is not error:
            raise failed[0]

    def publish(self, batch: Sequence[Execution]) -> None:
        """Begin to publish *batch* once a thread is free; raises the error of an earlier batch."""
        try:
            if len(self._under_way) == AT_ONCE:
                self.published += self._under_way.popleft().result().published
        finally:
            if batch:
                # In our context: its span is part of the tick's trace.
                run, publish = copy_context().run, self._publisher.publish
                result = self._executor.submit(run, publish, batch, now=self._now)
                self._under_way.append(result)


#: So soon they are compared again if a plan was locked: what was edited may be of any age.
NEXT_COMPARISON = timedelta(minutes=1)

#: So often is looked for what another replica has met and could not plan.
PROBLEMS_EVERY = timedelta(seconds=30)

#: The first and the longest pause before another look for due plans that could not be claimed.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(milliseconds=20), timedelta(seconds=1)


@attrs.frozen(kw_only=True)
class Tick:
    """What one tick did."""

    planned: int = 0
    claimed: int = 0
    skipped: int = 0
    published: int = 0


@attrs.define(kw_only=True, eq=False)
class Dispatcher:
    """One replica's share of the dispatching; *refresh* is how soon an edit is noticed."""

    _claims: ClaimStorePort
    _publisher: ExecutionPublisher
    _executor: Executor
    _node: str
    _refresh: timedelta = timedelta(seconds=5)
    _batch: int = 1_000
    _metrics: MetricsPort = SILENT
    _tracing: TracingPort = NOT_TRACED
    _refreshed_at: datetime | None = attrs.field(init=False, default=None)
    _noticed_until: datetime | None = attrs.field(init=False, default=None)
    _compared_at: datetime | None = attrs.field(init=False, default=None)
    _replanned_at: datetime | None = attrs.field(init=False, default=None)
    _next_due: datetime | None = attrs.field(init=False, default=None)
    _waits_for_others: timedelta = attrs.field(init=False, default=timedelta(0))
    _is_behind: bool = attrs.field(init=False, default=False)
    _pauses: Waits[timedelta] = attrs.field(init=False)
    _logged_problems: dict[str, str] = attrs.field(init=False, factory=dict[str, str])

    def __attrs_post_init__(self) -> None:
        self._pauses = Waits(FIRST_PAUSE, LONGEST_PAUSE)

    def tick(self, now: datetime) -> Tick:
        planned = 0
        try:
            planned = self._plan_edited(now)
        finally:  # what is due must not wait for an edit that cannot be planned
            tick = self._claim_and_publish(now, planned)
        return tick

    def _claim_and_publish(self, now: datetime, planned: int) -> Tick:
        claimed = skipped = 0
        with PublishPipeline(self._publisher, self._executor, now=now) as pipeline:
            for batch in self._claim_due(now):
                pipeline.publish(batch.claimed)
                if batch.gates:  # what keeps these back may have ended meanwhile
                    answer = self._claims.let_go(batch.gates, now=now)
                    log_let_go(answer)
                    pipeline.publish(answer.executions)
                claimed += len(batch.claimed)
                skipped += batch.skipped
        if claimed or skipped:
            text = f"Claimed {claimed} executions, skipped {skipped} instants"
            say(log, logging.DEBUG, "tick", text, planned=planned, published=pipeline.published)
        return Tick(planned=planned, claimed=claimed, skipped=skipped, published=pipeline.published)

    def wake_at(self, now: datetime) -> datetime:
        """Say when the next tick is to be: at the earliest plan, or at the next refresh.

        A due plan that could not be claimed is another replica's, or cannot be planned here: it is
        looked for again, ever more rarely while nothing else happens.
        """
        if self._is_behind:
            return now
        refresh_at = (self._refreshed_at or now) + self._refresh
        if self._next_due is None:
            return refresh_at
        return min(self._next_due + self._waits_for_others, refresh_at)

    @property
    def outlook(self) -> tuple[datetime | None, datetime | None]:
        return self._refreshed_at, self._next_due

    def _claim_due(self, now: datetime) -> Iterator[Batch]:
        """Claim what has just become due, then a part of what was missed: that is late already."""
        self._is_behind = False
        self._waits_for_others = timedelta(0) if self._publisher.can_publish() else HEAD_START
        until = now - self._waits_for_others
        self._next_due = self._claims.next_due()
        self._metrics.ticked()
        if self._next_due is None or self._next_due > until:  # most ticks: no lock is taken
            return
        with self._tracing.span("tick"):
            yield from self._claim_in_batches(now, until)

    def _claim_in_batches(self, now: datetime, until: datetime) -> Iterator[Batch]:
        more, done = True, 0
        while more:
            batch = self._claim(now, since=now - GRACE, until=until)
            yield batch
            more, done = batch.more, done + batch.recorded
        self._next_due = self._claims.next_due()
        if self._next_due is None or self._next_due > until:
            return
        batch = self._claim(now, since=None, until=until)
        self._is_behind = batch.more
        yield batch
        if done + batch.recorded:
            self._pauses.reset()
        self._next_due = self._claims.next_due()
        if self._next_due is not None and self._next_due <= until:
            # It could not be claimed here, and waits for a pause; what is due after it does not.
            later, again = self._claims.next_due(after=until), until + self._pauses.next()
            self._next_due = min(again, later or again)

    def _claim(self, now: datetime, *, since: datetime | None, until: datetime) -> Batch:
        planning = _Planning(now)
        with self._tracing.span("claim") as span:
            batch = self._claims.claim_due(
                now=now,
                limit=self._batch,
                node=self._node,
                planner=planning.plan,
                since=since,
                until=until,
            )
            span.note(claimed=len(batch.claimed), held=batch.held, skipped=batch.skipped)
        self._log_problems(batch)
        if put_off := [one for one in batch.claimed if waits_for_its_turn(one)]:
            log_late_runs(put_off)
        self._metrics.claimed(batch.claimed, now=now)
        if batch.skipped:
            self._metrics.skipped(planning.skipped())
        return batch

    def _plan_edited(self, now: datetime) -> int:
        if self._refreshed_at is not None and now < self._refreshed_at:
            # The clock was set back.
            self._refreshed_at = self._noticed_until = self._compared_at = None
        if self._refreshed_at is not None and now - self._refreshed_at < self._refresh:
            return 0
        since = self._since(now)
        if since is None:
            self._logged_problems.clear()
        planned, busy, more = 0, 0, True
        while more:
            batch = self._claims.plan_edited(
                now=now,
                since=since,
                limit=self._batch,
                node=self._node,
                planner=_Planning(now).plan,
            )
            self._log_problems(batch)
            planned, busy = planned + batch.looked, busy + batch.busy
            more = batch.more
        self._refreshed_at = now
        if since is None or has_passed(PROBLEMS_EVERY, self._replanned_at, now):
            self._plan_problems(now, since)
            self._replanned_at = now
        if since is None:
            self._compared_at = now - FULL_COMPARISON + NEXT_COMPARISON if busy else now
        if not busy or self._noticed_until is None:
            self._noticed_until = now  # or the next look is to find what is locked now
        return planned

    def _plan_problems(self, now: datetime, since: datetime | None) -> None:
        """Plan again what could not be planned, by another release or because of a passing fault.

        What was edited of late now and then: another replica may have met the edit first. The
        reconciler publishes what is claimed here: those are few, and late already.
        """
        if since is not None and self._replanned_at is not None:
            since = min(since, self._replanned_at - LATE_COMMITS)
        after, more = 0, True
        while more:
            batch, after = self._claims.plan_problems(
                now=now,
                since=since,
                after=after,
                limit=self._batch,
                node=self._node,
                planner=_Planning(now).plan,
            )
            self._log_problems(batch)
            more = batch.more

    def _since(self, now: datetime) -> datetime | None:
        if self._noticed_until is None or self._compared_at is None:
            return None
        waited = now - self._compared_at
        # It takes 0.3 s for 100,000, so due rows go first, unless some are due at each refresh.
        is_due = self._next_due is not None and self._next_due <= now
        if waited >= (2 * FULL_COMPARISON if is_due else FULL_COMPARISON):
            return None
        return self._noticed_until - LATE_COMMITS

    def _log_problems(self, batch: Batch) -> None:
        for name, problem in batch.problems:
            if self._logged_problems.get(name) == problem:
                continue
            self._logged_problems[name] = problem
            text = f"Schedule {name} cannot be planned and is left out: {problem}"
            say(log, logging.ERROR, "schedule.broken", text)


class _Planning:
    """Plans as of one moment, and remembers the skips: a repeated transaction counts once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._plans: dict[int, Plan] = {}

    def plan(self, planned: Planned) -> Plan:
        decided = plan(planned, self._now)
        if decided.skips:
            self._plans[planned.schedule.id] = decided
        return decided

    def skipped(self) -> Counter[SkipKind]:
        kinds = Counter[SkipKind]()
        for decided in self._plans.values():
            for skip in decided.skips:
                kinds[skip_kind(skip.reason)] += skip.count
        return kinds

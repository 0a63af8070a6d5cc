"""Ending attempts that were lost: their lease has lapsed, or their node is known to be gone."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_policies import RetryPolicies
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.retries.retry import decide
from cronhare.ports.attempts import AttemptStorePort, Busy, Finish, Superseded
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.runner import AttemptResult
from cronhare.ports.system import SILENT, MetricsPort

from ..limit_log import log_limits
from ..outcome_log import log_outcome
from .end_publisher import EndPublisher, GivenUp
from .locked_leases import LockedLeases
from .paging import pages, without_broken


@attrs.define(kw_only=True, eq=False)
class LostAttempts:
    """Gives attempts up, a bounded number per call, and publishes what follows; see `decide`."""

    _claims: ClaimStorePort
    _attempts: AttemptStorePort
    _ends: EndPublisher
    _locked: LockedLeases
    _policies: RetryPolicies
    _random_fraction: Callable[[], float]
    _limit: int
    _metrics: MetricsPort = SILENT

    def run_by(self, nodes: Collection[str]) -> Sequence[Execution]:
        """Find what *nodes* run for the users: to be given up later, if they stay silent."""
        found = without_broken(self._claims.run_by(nodes, limit=self._limit))
        return [each for each in found if not each.task.is_system]

    def give_up(self, found: Sequence[Execution], now: datetime) -> int:
        """End what was found some time ago, except what was renewed or ended since."""
        return self._publish(self._give_up(found, now), now)

    def end_lapsed(self, now: datetime) -> int:
        """End what has lapsed; an owner whose row was locked gets another lease first."""
        self._locked.begin_round()
        found = pages(partial(self._claims.lapsed, now=now, limit=self._limit), limit=self._limit)
        lapsed = (self._locked.renew_unlocked(without_broken(page), now) for page in found)
        return self._publish(self._give_up_all(lapsed, now), now)

    def end_run_by(
        self, nodes: Collection[str], now: datetime, *, publishes_retries: bool = True
    ) -> int:
        """End what *nodes*, which are gone, were running, before its leases lapse."""
        if not nodes:
            return 0
        found = pages(partial(self._claims.run_by, nodes, limit=self._limit), limit=self._limit)
        lost = self._give_up_all((without_broken(page) for page in found), now)
        return self._publish(lost, now, publishes_retries=publishes_retries)

    def _publish(
        self, lost: Sequence[GivenUp], now: datetime, *, publishes_retries: bool = True
    ) -> int:
        published = lost if publishes_retries else [x for x in lost if x[1] is not State.RETRYING]
        self._ends.publish(published, now)
        return len(lost)

    def _give_up_all(
        self, found: Iterable[Sequence[Execution]], now: datetime
    ) -> Sequence[GivenUp]:
        return [each for page in found for each in self._give_up(page, now)]

    def _give_up(self, found: Sequence[Execution], now: datetime) -> Sequence[GivenUp]:
        if not found:
            return ()
        finishes = [self._lost(execution, now) for execution in found]
        answers = self._attempts.give_up(finishes, now=now)
        self._locked.note(found, answers)
        ended: list[GivenUp] = []
        for asked, answer in zip(finishes, answers, strict=True):
            if isinstance(answer, Superseded | Busy):
                continue  # its owner was alive after all
            finish, state = asked.as_recorded(answer)
            self._metrics.lost(1)
            log_outcome(finish, state, duration="unknown", policies=self._policies)
            log_limits(answer)
            if isinstance(state, State):
                ended.append((finish, state))
        return ended

    def _lost(self, execution: Execution, now: datetime) -> Finish:
        error = TaskError(
            message=f"its worker {execution.owner} vanished", error_class=ErrorClass.UNKNOWN
        )
        outcome = Outcome(ending=Ending.LOST, error=error)
        verdict = decide(
            outcome,
            deaths=execution.deaths,
            policy=self._policies.of(execution),
            crash_policy=self._policies.crashes_of(execution),
            crashes=execution.crashes_after(outcome.ending, now=now),
            now=now,
            random_fraction=self._random_fraction(),
        )
        ran = AttemptResult(outcome=outcome)
        return Finish(execution=execution, ran=ran, verdict=verdict, limits=self._policies.limits)

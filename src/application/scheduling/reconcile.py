"""The loop that publishes again what no queue has, and ends attempts that were lost."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import attrs

from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.messages import AttemptRef
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.schedules.skips import SkipKind
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import AttemptStorePort, Busy, Finish, Superseded
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.runner import AttemptResult
from cronhare.ports.system import SILENT, MetricsPort

from ..logs import place_of, say
from ..outcome_log import log_late, log_let_go, log_limits, log_outcome
from ..publish import ExecutionPublisher
from .lapses import GracePeriod, LockedLeases

log = logging.getLogger(__name__)

#: So many rows are one page, and so many pages of a kind are worked through in one round.
PAGE, PAGES = 1_000, 10

#: At so many gates a round looks. With more of them, the next round goes on from there.
GATES_PER_ROUND: Final = 200

#: So many late ends are remembered as logged.
MOST_LOGGED: Final = PAGE * PAGES

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Reconciled:
    """What one round found."""

    republished: int = 0
    lost: int = 0


@attrs.frozen
class _Look:
    """A search for one kind of trouble, which is mended; answers how many executions had it.

    A rare one finds what the rounds do not find by its time; it may take long, and comes last.
    """

    kind: str
    find: Callable[[datetime], int | None]
    is_rare: bool = False


@attrs.define(kw_only=True, eq=False)
class Reconciler:
    """Every replica runs one; they get different rows. *lease* is that of the workers."""

    _claims: ClaimStorePort
    _attempts: AttemptStorePort
    _publisher: ExecutionPublisher
    _policies: RetryPolicies
    _random_fraction: Callable[[], float]
    _lease: timedelta
    _graces: Graces = attrs.field(factory=Graces)
    _limit: int = PAGE
    _metrics: MetricsPort = SILENT
    _looks: Sequence[_Look] = attrs.field(init=False)
    _grace: GracePeriod = attrs.field(init=False)
    _locked: LockedLeases = attrs.field(init=False)
    _last_gate: str = attrs.field(init=False, default="")
    _rare_look_fails: bool = attrs.field(init=False, default=False)
    _logged: dict[AttemptRef, None] = attrs.field(init=False, factory=dict[AttemptRef, None])

    def __attrs_post_init__(self) -> None:
        self._grace = GracePeriod(self._lease, owners=self._claims.owners)
        self._locked = LockedLeases(self._attempts, self._lease, self._grace)
        self._looks = (  # the most urgent first
            _Look("lost", self._give_up_lapsed),
            _Look("overdue", self._publish_overdue),
            _Look("not to begin", self._end_waiting),
            _Look("held back", self._let_go),
            _Look("broker", self._publisher.check_broker),
            _Look("doubtful", self._mark_doubtful, is_rare=True),
            _Look("late ends", self._publish_overdue_ends, is_rare=True),
        )

    def begin_grace(self, why: str = "the ledger was away") -> None:
        """Take note that the ledger was away, or may have been: a `GracePeriod` begins."""
        self._grace.begin(why)

    def tick(self, now: datetime) -> Reconciled:
        """Make each look once. A fault of ours in one costs the others nothing, and is raised last.

        What the ledger does not answer may be the fault of one look alone: another one is made, and
        the round ends with the second that gets no answer. A rare look that fails counts as an
        outage of the ledger once; one that goes on failing is its own alone.
        """
        found = dict[str, int | None]()
        away: LedgerUnavailable | None = None
        fault: Exception | None = None
        for look in self._looks:
            try:
                found[look.kind] = look.find(now)
            except LedgerUnavailable as error:
                if look.is_rare:
                    self._note_rare_failure(error)
                    break
                if away is not None:
                    break
                away = error
            except Exception as error:
                text = f"The look for what is {look.kind} met a fault of ours; the others go on"
                log.exception("%s", text, extra={"action": "loop.fault"})
                fault = fault or error
        else:
            self._rare_look_fails = False
        if (first := away or fault) is not None:
            raise first
        return Reconciled(republished=found["overdue"] or 0, lost=found["lost"] or 0)

    def _note_rare_failure(self, error: LedgerUnavailable) -> None:
        text = f"What may be lost is looked for later: {error}"
        say(log, logging.ERROR, "ledger.unavailable", text)
        if not self._rare_look_fails:
            self._rare_look_fails = True
            self.begin_grace()

    def recover(self, now: datetime, *, gone: Collection[str]) -> Reconciled:
        """Begin beside a broker that remembers nothing: all that waits is published again."""
        lost = self.end_run_by(gone, now, publishes_retries=False)
        republished = last = 0
        while waiting := self._claims.unfinished(after=last, limit=self._limit):
            sound = _sound(waiting)
            self._publisher.publish(sound, now=now)
            republished += len(sound)
            last = waiting[-1].id
        return Reconciled(republished=republished, lost=lost)

    def run_by(self, nodes: Collection[str]) -> Sequence[Execution]:
        """Find what *nodes* run for the users: to be given up later, if they stay silent."""
        found = _sound(self._claims.run_by(nodes, limit=self._limit))
        return [each for each in found if not each.task.is_system]

    def end_run_by(
        self, nodes: Collection[str], now: datetime, *, publishes_retries: bool = True
    ) -> int:
        """End what *nodes*, which are gone, were running, before its leases lapse."""
        if not nodes:
            return 0
        found = self._pages(partial(self._claims.run_by, nodes))
        return sum(
            self.give_up(_sound(page), now, publishes_retries=publishes_retries) for page in found
        )

    def give_up(
        self, found: Sequence[Execution], now: datetime, *, publishes_retries: bool = True
    ) -> int:
        """End attempts as lost, except what was renewed or ended since; answers how many were."""
        if not found:
            return 0
        finishes = [self._lost(execution, now) for execution in found]
        answers = self._attempts.give_up(finishes, now=now)
        self._locked.note(found, answers)
        ended = list[tuple[Finish, State]]()
        for asked, answer in zip(finishes, answers, strict=True):
            if isinstance(answer, Superseded | Busy):
                continue  # its owner was alive after all
            finish, state = asked.as_recorded(answer)
            self._metrics.lost(1)
            log_outcome(finish, state, duration="unknown", policies=self._policies)
            log_limits(answer)
            if isinstance(state, State):
                ended.append((finish, state))
        following = [one for one in ended if publishes_retries or one[1] is not State.RETRYING]
        self._publisher.publish_ends(following, now=now)
        return len(ended)

    def _lost(self, execution: Execution, now: datetime) -> Finish:
        message = f"its worker {execution.owner} vanished"
        error = TaskError(message=message, error_class=ErrorClass.UNKNOWN)
        outcome = Outcome(ending=Ending.LOST, error=error)
        verdict = self._policies.judge(
            execution, outcome, now=now, random_fraction=self._random_fraction()
        )
        ran = AttemptResult(outcome=outcome)
        return Finish(execution=execution, ran=ran, verdict=verdict, limits=self._policies.limits)

    def _give_up_lapsed(self, now: datetime) -> int:
        """End what has lapsed; an owner whose row was locked gets another lease first."""
        if self._grace.lasts(now):
            return 0
        self._locked.begin_round()
        found = self._pages(partial(self._claims.lapsed, now=now))
        return sum(
            self.give_up(self._locked.renew_unlocked(_sound(page), now), now) for page in found
        )

    def _publish_overdue(self, now: datetime) -> int:
        republished = 0
        unreachable = frozenset[str]()  # what waits for these is tried anew in the next round
        for page in self._late(self._claims.overdue, now):
            overdue = [each for each in _sound(page) if each.queue not in unreachable]
            if not overdue:
                continue
            republished += len(overdue)
            self._metrics.resent(len(overdue))
            text = f"Sending {len(overdue)} overdue executions again"
            say(log, logging.DEBUG, "reconcile", text)
            result = self._publisher.publish(overdue, now=now)
            if result.unknown and not result.is_answered:
                break  # the broker is away: each page would be waited for in vain
            unreachable |= result.unreachable
        return republished

    def _publish_overdue_ends(self, now: datetime) -> int:
        """Publish what follows last attempts, where no queue is known to have it (ADR 20)."""
        published = 0
        for page in self._late(self._claims.overdue_ends, now):
            for ended in page:
                if ended.ticket not in self._logged:  # once, however often its message is sent
                    if len(self._logged) >= MOST_LOGGED:
                        del self._logged[next(iter(self._logged))]
                    self._logged[ended.ticket] = None
                    log_late(ended)
            result = self._publisher.publish_late_ends(page, now=now)
            published += result.published
            if result.published < len(page):
                break
        return published

    def _end_waiting(self, now: datetime) -> int:
        """End what waits and was cancelled in its row, or has expired; workers end what runs."""
        ended = self._claims.end_waiting(now=now, limit=PAGES * self._limit)
        for execution in ended:
            action, text = "execution.cancelled", "Cancelled while it waited, as its row asks for"
            if execution.state is State.SKIPPED:
                action, text = "execution.expired", f"It does not run: {execution.last_error}"
                self._metrics.skipped({SkipKind.EXPIRED: 1})
            say(log, logging.INFO, action, text, **place_of(execution))
        return len(ended)

    def _let_go(self, now: datetime) -> int:
        """Let go what no worker has let go: it died, or a person changed a limit or a row."""
        if not self._publisher.can_publish():
            return 0
        gates = self._claims.gates(after=self._last_gate, limit=GATES_PER_ROUND)
        self._last_gate = gates[-1] if len(gates) == GATES_PER_ROUND else ""
        if not gates:
            return 0
        answer = self._claims.let_go(gates, now=now)
        log_let_go(answer)
        self._publisher.publish(answer.executions, now=now)
        return len(answer.executions)

    def _mark_doubtful(self, now: datetime) -> None:
        for _ in range(PAGES):
            if not self._publisher.mark_doubtful(now, limit=self._limit):
                return

    def _late(self, find: Callable[..., Sequence[T]], now: datetime) -> Iterator[Sequence[T]]:
        """Find what is late by its grace, and is to be sent again, while the broker is there.

        What we took meanwhile others could not have, who may be able to publish it.
        """
        if self._publisher.can_publish():
            yield from self._pages(partial(find, now=now, graces=self._graces))

    def _pages(self, find: Callable[..., Sequence[T]]) -> Iterator[Sequence[T]]:
        for _ in range(PAGES):
            found = find(limit=self._limit)
            if found:
                yield found
            if len(found) < self._limit:
                return


def _sound(found: Sequence[Execution]) -> Sequence[Execution]:
    """Leave out broken rows: the ledger has quarantined them, and logged it."""
    return [execution for execution in found if execution.problem is None]

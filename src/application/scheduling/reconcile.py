"""The loop that publishes again what no queue has, and ends attempts that were lost."""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial

import attrs

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.lifecycle.retry_policies import RetryPolicies
from cronhare.domain.messages.signing import Seal
from cronhare.domain.retries.leaps import has_passed
from cronhare.domain.schedules.skip_reasons import SkipKind
from cronhare.domain.texts.words import counted
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import AttemptStorePort
from cronhare.ports.broker import BrokerPort, BrokerUnavailable
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.system import SILENT, MetricsPort

from ..logs import place_of, say
from ..publishing.execution_publisher import ExecutionPublisher
from .end_publisher import EndPublisher
from .gaps import GracePeriod
from .held_back import HeldBack
from .locked_leases import LockedLeases
from .lost_attempts import LostAttempts
from .paging import PAGE, PAGES, pages, without_broken

log = logging.getLogger(__name__)

#: So often rows are searched that have no time at which to look for them, after edits by hand; and
#: as soon as the ledger's clock is set back.
REGAIN_EVERY = timedelta(minutes=10)


@attrs.frozen(kw_only=True)
class Reconciled:
    """What one round found."""

    republished: int = 0
    lost: int = 0


@attrs.define
class _Steps:
    """The steps of a round, whose faults of ours are kept from each other."""

    _fault: Exception | None = None

    @contextmanager
    def each(self) -> Iterator[None]:
        """Log a fault, and go on. That a server is away concerns all steps: it ends the round."""
        try:
            yield
        except (LedgerUnavailable, BrokerUnavailable):
            raise
        except Exception as fault:
            text = "A step of the reconciler met a fault of ours; the others go on"
            log.exception("%s", text, extra={"action": "loop.fault"})
            self._fault = self._fault or fault

    def end(self) -> None:
        """Raise the first fault."""
        if self._fault is not None:
            raise self._fault


class Reconciler:
    """Every replica runs one; they get different rows. Bounded work per round."""

    def __init__(
        self,
        *,
        claims: ClaimStorePort,
        attempts: AttemptStorePort,
        broker: BrokerPort,
        publisher: ExecutionPublisher,
        policies: RetryPolicies,
        random_fraction: Callable[[], float],
        seal: Seal,
        lease: timedelta,
        graces: Graces | None = None,
        limit: int = PAGE,
        metrics: MetricsPort = SILENT,
    ) -> None:
        """*lease* is that of the workers."""
        self._claims = claims
        self._broker = broker
        self._publisher = publisher
        self._graces = graces or Graces()
        self._limit = limit
        self._metrics = metrics
        self._ends = EndPublisher(
            claims=claims,
            broker=broker,
            missing_queues=publisher.missing_queues,
            seal=seal,
            graces=self._graces,
            limit=limit,
        )
        self.lost_attempts = LostAttempts(
            claims=claims,
            attempts=attempts,
            ends=self._ends,
            locked=LockedLeases(attempts, lease),
            policies=policies,
            random_fraction=random_fraction,
            limit=limit,
            metrics=metrics,
        )
        self._held_back = HeldBack(claims=claims, publisher=publisher)
        self._grace = GracePeriod(lease, owners=claims.owners)
        self._regained_at: datetime | None = None
        self._fails_already = False

    def begin_grace(self, why: str = "the ledger was away") -> None:
        """Take note that the ledger was away, or may have been: leases could not be renewed.

        From the next round on owners have the length of a lease to renew, or to record what has
        ended, before anything is given up; see `GracePeriod`.
        """
        self._grace.begin(why)

    def tick(self, now: datetime) -> Reconciled:
        """Decide what becomes of attempts whose lease lapsed, and publish again what is overdue.

        A fault of ours in one step costs the others nothing, and is raised once all are done.
        """
        lost = republished = 0
        steps = _Steps()
        try:
            with steps.each():
                if not self._grace.lasts(now):
                    lost = self.lost_attempts.end_lapsed(now)
        finally:  # what is overdue must not wait for what cannot be given up
            with steps.each():
                republished = self._republish_overdue(now)
        with steps.each():
            self._end_waiting(now)
        with steps.each():
            if self._broker.is_reachable():  # or what is let go could not be published
                self._held_back.look(now)
        with steps.each():
            self._publisher.check_broker(now)
        with steps.each():
            self._do_rare_work(now)
        steps.end()
        return Reconciled(republished=republished, lost=lost)

    def recover(self, now: datetime, *, gone: Collection[str]) -> Reconciled:
        """Begin beside a broker that remembers nothing, after the nodes in *gone* went away.

        Everything that waits is published again; whatever reaches a worker twice is fenced.
        """
        lost = self.lost_attempts.end_run_by(gone, now, publishes_retries=False)
        republished = last = 0
        while waiting := self._claims.unfinished(after=last, limit=self._limit):
            sound = without_broken(waiting)
            self._publisher.publish(sound, now=now)
            republished += len(sound)
            last = waiting[-1].id
        return Reconciled(republished=republished, lost=lost)

    def _end_waiting(self, now: datetime) -> None:
        """End what waits and was cancelled in its row, or has expired; workers end what runs."""
        for execution in self._claims.end_waiting(now=now, limit=PAGES * self._limit):
            action, text = "execution.cancelled", "Cancelled while it waited, as its row asks for"
            if execution.state is State.SKIPPED:
                action, text = "execution.expired", f"It does not run: {execution.last_error}"
                self._metrics.skipped({SkipKind.EXPIRED: 1})
            say(log, logging.INFO, action, text, **place_of(execution))

    def _republish_overdue(self, now: datetime) -> int:
        if not self._broker.is_reachable():
            return 0  # what we took others could not have, who may be able to publish it
        republished = 0
        unreachable = frozenset[str]()  # what waits for these is tried anew in the next round
        find = partial(self._claims.overdue, now=now, graces=self._graces, limit=self._limit)
        for found in pages(find, limit=self._limit):
            overdue = [each for each in without_broken(found) if each.queue not in unreachable]
            republished += len(overdue)
            if overdue:
                self._metrics.resent(len(overdue))
                text = f"Sending {len(overdue)} overdue executions again"
                say(log, logging.DEBUG, "reconcile", text)
                result = self._publisher.publish(overdue, now=now)
                if result.unknown and not result.is_answered:
                    break  # the broker is away: each page would be waited for in vain
                unreachable |= result.unreachable
        return republished

    def _do_rare_work(self, now: datetime) -> None:
        """Search what the rounds do not find by its time: rare, perhaps long, and thus last.

        The first failure counts as an outage of the ledger; one that lasts is its own alone.
        """
        try:
            for _ in range(PAGES):
                if not self._publisher.mark_doubtful(now, limit=self._limit):
                    break
            self._regain(now)
            self._ends.publish_overdue(now)
            self._fails_already = False
        except LedgerUnavailable as error:
            text = f"What may be lost is looked for later: {error}"
            say(log, logging.ERROR, "ledger.unavailable", text)
            if not self._fails_already:
                self._fails_already = True
                self.begin_grace()

    def _regain(self, now: datetime) -> None:
        if not has_passed(REGAIN_EVERY, self._regained_at, now):
            return
        found = self._claims.regain(now=now, limit=self._limit)
        if found:
            those = counted(found, "execution")
            why = "without a time at which to look for them, or with one of a clock that was ahead"
            say(log, logging.WARNING, "reconcile.regain", f"{those} waited or ran {why}")
        self._regained_at = now if found < self._limit else None  # there may be more

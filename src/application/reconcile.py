"""The loop that sends again what the broker should have and does not, and ends what was lost."""

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.retry import RetryPolicy, decide
from cronhare.domain.signing import Seal
from cronhare.domain.task import SYSTEM
from cronhare.ports.attempts import AttemptStorePort, Finish
from cronhare.ports.broker import BrokerPort
from cronhare.ports.claims import ClaimStorePort, Graces
from cronhare.ports.ledger import LedgerUnavailable
from cronhare.ports.runner import Ran

from .doorbell import Doorbell
from .follow_up import follow_up
from .logs import say
from .story import tell

log = logging.getLogger(__name__)

Ended = tuple[Finish, State]

#: So many rows are one page, and so many pages of a kind are worked through in one round.
PAGE, PAGES = 1_000, 10

#: So often what has no time at which to look for it is looked for. Only edits by hand make such.
REGAIN_EVERY = timedelta(minutes=10)


@attrs.frozen(kw_only=True)
class Reconciled:
    """What one round found."""

    republished: int = 0
    lost: int = 0


class Reconciler:
    """Every replica runs one; they get different rows. Bounded work per round."""

    def __init__(
        self,
        *,
        claims: ClaimStorePort,
        attempts: AttemptStorePort,
        broker: BrokerPort,
        doorbell: Doorbell,
        policy: RetryPolicy,
        chance: Callable[[], float],
        seal: Seal,
        lease: timedelta,
        graces: Graces | None = None,
        limit: int = PAGE,
    ) -> None:
        """*policy* holds for schedules without one of their own; *lease* is that of the workers."""
        self._claims = claims
        self._attempts = attempts
        self._broker = broker
        self._doorbell = doorbell
        self._policy = policy
        self._chance = chance
        self._seal = seal
        self._graces = graces or Graces()
        self._limit = limit
        self._regained_at: datetime | None = None
        self._lease = lease
        self._ledger_was_away = False
        self._spares_until: datetime | None = None
        self._put_off = False

    def spare(self) -> None:
        """Take note of an outage of the ledger: what lapsed meanwhile could not be renewed.

        From the next look on, owners have the length of a lease to renew, or to record what has
        ended, before anything is given up.
        """
        self._ledger_was_away = True

    def tick(self, now: datetime) -> Reconciled:
        """Decide what becomes of attempts whose lease lapsed, and send again what is overdue."""
        lost = 0 if self._spares(now) else self.bury(now, gone=())
        republished = self._send_again(now)
        self._doorbell.listen(now)
        self._look_further(now)
        return Reconciled(republished=republished, lost=lost)

    def _look_further(self, now: datetime) -> None:
        """Let later rounds find what they would not. Rare, and long perhaps: it holds up nothing.

        The first failure counts as an outage of the ledger; one that lasts is its own alone.
        """
        try:
            for _ in range(PAGES):
                if not self._doorbell.doubt(now, limit=self._limit):
                    break
            self._regain(now)
            self._put_off = False
        except LedgerUnavailable as error:
            text = f"What may be lost is looked for later: {error}"
            say(log, logging.ERROR, "ledger.unavailable", text)
            if not self._put_off:
                self._put_off = True
                self.spare()

    def _spares(self, now: datetime) -> bool:
        if self._ledger_was_away:
            self._ledger_was_away, self._spares_until = False, now + self._lease
            text = f"The ledger was away: workers have {self._lease.total_seconds():.0f} s to renew"
            say(log, logging.INFO, "reconcile.spared", text)
        until = self._spares_until
        return until is not None and timedelta(0) < until - now <= self._lease

    def _send_again(self, now: datetime) -> int:
        republished = 0
        for _ in range(PAGES):
            found = self._claims.overdue(now=now, graces=self._graces, limit=self._limit)
            overdue = _sound(found)
            republished += len(overdue)
            if overdue:
                text = f"Sending {len(overdue)} overdue executions again"
                say(log, logging.DEBUG, "reconcile", text)
                if not self._doorbell.ring(overdue, now=now).published:
                    break  # the broker is away: each page would be waited for in vain
            if len(found) < self._limit:
                break
        return republished

    def _regain(self, now: datetime) -> None:
        if self._regained_at is not None and timedelta(0) <= now - self._regained_at < REGAIN_EVERY:
            return
        if found := self._claims.regain(now=now):
            text = f"{found} executions waited or ran without a time at which to look for them"
            say(log, logging.WARNING, "reconcile.regain", text)
        self._regained_at = now

    def bury(self, now: datetime, *, gone: Collection[str]) -> int:
        """End what the nodes in *gone* were running, without waiting for its leases to lapse."""
        lost = self._end_lost(now, gone=gone)
        self._send_what_follows(lost, now)
        return len(lost)

    def run_by(self, nodes: Collection[str], now: datetime) -> Sequence[Execution]:
        """Find what *nodes* run for the users: to be given up later, if they stay silent."""
        lapsed = _sound(self._claims.lapsed(now=now, limit=self._limit, gone=nodes))
        return [each for each in lapsed if each.owner in nodes and each.task.type != SYSTEM]

    def give_up(self, found: Sequence[Execution], now: datetime) -> int:
        """End what was found some time ago, but for what somebody has renewed or ended since."""
        lost = self._give_up(found, now)
        self._send_what_follows(lost, now)
        return len(lost)

    def recover(self, now: datetime, *, gone: Collection[str]) -> Reconciled:
        """Begin beside a broker that remembers nothing, after the nodes in *gone* went away.

        Everything that waits is published again; whatever reaches a worker twice is fenced.
        """
        lost = self._end_lost(now, gone=gone)
        self._send_what_follows([each for each in lost if each[1] is not State.RETRYING], now)
        republished = last = 0
        while waiting := self._claims.unfinished(after=last, limit=self._limit):
            sound = _sound(waiting)
            self._doorbell.ring(sound, now=now)
            republished += len(sound)
            last = waiting[-1].id
        return Reconciled(republished=republished, lost=len(lost))

    def _end_lost(self, now: datetime, *, gone: Collection[str]) -> Sequence[Ended]:
        ended: list[Ended] = []
        for _ in range(PAGES):
            found = self._claims.lapsed(now=now, limit=self._limit, gone=gone)
            ended += self._give_up(_sound(found), now)
            if len(found) < self._limit:
                break
        return ended

    def _give_up(self, found: Sequence[Execution], now: datetime) -> Sequence[Ended]:
        if not found:
            return ()
        finishes = [self._lost(execution, now) for execution in found]
        states = self._attempts.give_up(finishes, now=now)
        ended = [
            (finish, state)
            for finish, state in zip(finishes, states, strict=True)
            if isinstance(state, State)  # or its owner was alive after all
        ]
        for finish, state in ended:
            tell(finish, state, duration="unknown", policy=self._policy)
        return ended

    def _send_what_follows(self, ended: Sequence[Ended], now: datetime) -> None:
        following = [follow_up(finish, state, now=now, seal=self._seal) for finish, state in ended]
        envelopes = [envelope for envelope in following if envelope is not None]
        if envelopes:
            self._broker.publish(envelopes)

    def _lost(self, execution: Execution, now: datetime) -> Finish:
        error = TaskError(
            message=f"its worker {execution.owner} vanished", error_class=ErrorClass.UNKNOWN
        )
        outcome = Outcome(ending=Ending.LOST, error=error)
        verdict = decide(
            outcome,
            deaths=execution.deaths,
            policy=execution.retry or self._policy,
            crashed_at=execution.crashed_at,
            now=now,
            chance=self._chance(),
        )
        return Finish(execution=execution, ran=Ran(outcome=outcome), verdict=verdict)


def _sound(found: Sequence[Execution]) -> Sequence[Execution]:
    """Leave out what the ledger has set apart, and say why it did."""
    for execution in found:
        if execution.problem is not None:
            text = (
                f"Execution {execution.id} of {execution.schedule_name} is quarantined, its row is "
                f"broken: {execution.problem}. Mend the row, then: cronhare failed replay"
            )
            say(log, logging.ERROR, "execution.broken", text)
    return [execution for execution in found if execution.problem is None]

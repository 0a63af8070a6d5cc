"""The loop that sends again what the broker should have and does not, and ends what was lost."""

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Ended
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.messages.messages import AttemptRef
from cronhare.domain.messages.signing import Seal
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.retries.retry import RetryPolicy, decide
from cronhare.domain.texts.listing import counted
from cronhare.ports.attempts import AttemptStorePort, Busy, EndRefused, Finish, Superseded
from cronhare.ports.broker import BrokerPort, Published
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.ledger import LedgerUnavailable
from cronhare.ports.runner import AttemptResult

from ..logs import say
from ..outcome_log import log_late, log_outcome, log_unsendable
from ..publishing.execution_publisher import ExecutionPublisher
from ..publishing.follow_up import Unsendable, follow_up, follow_up_late, is_last
from ..publishing.missing_queues import Sent
from .gaps import GracePeriod
from .locked_leases import LockedLeases

log = logging.getLogger(__name__)

GivenUp = tuple[Finish, State | EndRefused]

#: So many rows are one page, and so many pages of a kind are worked through in one round.
PAGE, PAGES = 1_000, 10

#: So many ends whose messages no queue has are remembered as told.
MOST_LOGGED = PAGE * PAGES

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
        publisher: ExecutionPublisher,
        policy: RetryPolicy,
        random_fraction: Callable[[], float],
        seal: Seal,
        lease: timedelta,
        graces: Graces | None = None,
        limit: int = PAGE,
    ) -> None:
        """*policy* holds for schedules without one of their own; *lease* is that of the workers."""
        self._claims = claims
        self._attempts = attempts
        self._broker = broker
        self._publisher = publisher
        self._policy = policy
        self._random_fraction = random_fraction
        self._seal = seal
        self._graces = graces or Graces()
        self._limit = limit
        self._regained_at: datetime | None = None
        self._grace = GracePeriod(lease, owners=claims.owners)
        self._locked = LockedLeases(attempts, lease)
        self._fails_already = False
        self._logged: dict[AttemptRef, None] = {}

    def begin_grace(self, why: str = "the ledger was away") -> None:
        """Take note that the ledger was away, or may have been: what lapsed could not be renewed.

        From the next look on, owners have the length of a lease to renew, or to record what has
        ended, before anything is given up; `GracePeriod` says how often.
        """
        self._grace.begin(why)

    def tick(self, now: datetime) -> Reconciled:
        """Decide what becomes of attempts whose lease lapsed, and send again what is overdue."""
        lost = 0
        try:
            if not self._grace.lasts(now):
                lost = self._end_lapsed(now)
        finally:  # what is overdue must not wait for what cannot be given up
            republished = self._send_again(now)
        self._publisher.check_broker(now)
        self._look_further(now)
        return Reconciled(republished=republished, lost=lost)

    def _look_further(self, now: datetime) -> None:
        """Let later rounds find what they would not. Rare, and long perhaps: it holds up nothing.

        The first failure counts as an outage of the ledger; one that lasts is its own alone.
        """
        try:
            for _ in range(PAGES):
                if not self._publisher.mark_doubtful(now, limit=self._limit):
                    break
            self._regain(now)
            self._send_ends(now)
            self._fails_already = False
        except LedgerUnavailable as error:
            text = f"What may be lost is looked for later: {error}"
            say(log, logging.ERROR, "ledger.unavailable", text)
            if not self._fails_already:
                self._fails_already = True
                self.begin_grace()

    def _send_again(self, now: datetime) -> int:
        if not self._broker.is_reachable():
            return 0  # what we took others could not have, who may be able to publish it
        republished = 0
        unreachable = frozenset[str]()  # what waits for these is tried anew in the next round
        for _ in range(PAGES):
            found = self._claims.overdue(now=now, graces=self._graces, limit=self._limit)
            overdue = [each for each in _sound(found) if each.queue not in unreachable]
            republished += len(overdue)
            if overdue:
                text = f"Sending {len(overdue)} overdue executions again"
                say(log, logging.DEBUG, "reconcile", text)
                result = self._publisher.publish(overdue, now=now)
                if result.unknown and not result.is_answered:
                    break  # the broker is away: each page would be waited for in vain
                unreachable |= result.unreachable
            if len(found) < self._limit:
                break
        return republished

    def _send_ends(self, now: datetime) -> None:
        """Send what follows ends for good, where no queue is known to have it.

        Whoever ended them died since, or never heard that they have ended, or the broker was away.
        """
        if not self._broker.is_reachable():
            return  # or each would be told in the log, and sent in vain, again and again
        for _ in range(PAGES):
            found = self._claims.overdue_ends(now=now, graces=self._graces, limit=self._limit)
            late, never = self._late(found)
            published = self._publish(late, now)
            if never:
                self._claims.mark_ends_published(never)  # or they would be found for ever
            if published < len(late) or len(found) < self._limit:
                break

    def _late(self, found: Sequence[Ended]) -> tuple[Sequence[Sent], Sequence[AttemptRef]]:
        """Make the messages of ends, and name those that no message can be made of."""
        late: list[Sent] = []
        never: list[AttemptRef] = []
        for ended in found:
            archived = ended.archived
            match follow_up_late(ended, self._seal):
                case Unsendable(reason):
                    log_unsendable(archived, reason)
                    never.append(ended.ticket)
                case envelope:
                    self._tell_late(ended)
                    name = archived.schedule_name
                    late.append(Sent(envelope=envelope, ticket=ended.ticket, schedule_name=name))
        return late, never

    def _tell_late(self, ended: Ended) -> None:
        """Tell an end once, however often its message has to be sent."""
        if ended.ticket in self._logged:
            return
        if len(self._logged) >= MOST_LOGGED:
            del self._logged[next(iter(self._logged))]
        self._logged[ended.ticket] = None
        log_late(ended.archived)

    def _regain(self, now: datetime) -> None:
        if self._regained_at is not None and timedelta(0) <= now - self._regained_at < REGAIN_EVERY:
            return
        found = self._claims.regain(now=now, limit=self._limit)
        if found:
            those = counted(found, "execution")
            text = f"{those} waited or ran without a time at which to look for them"
            say(log, logging.WARNING, "reconcile.regain", text)
        self._regained_at = now if found < self._limit else None  # there may be more

    def end_attempts_of(self, now: datetime, *, gone: Collection[str]) -> int:
        """End what the nodes in *gone* were running, without waiting for its leases to lapse.

        What lapsed of others is left to `tick`, which knows whether they could renew it.
        """
        lost = self._end_run_by(gone, now)
        self._send_what_follows(lost, now)
        return len(lost)

    def run_by(self, nodes: Collection[str]) -> Sequence[Execution]:
        """Find what *nodes* run for the users: to be given up later, if they stay silent."""
        found = _sound(self._claims.run_by(nodes, limit=self._limit))
        return [each for each in found if not each.task.is_system]

    def give_up(self, found: Sequence[Execution], now: datetime) -> int:
        """End what was found some time ago, but for what somebody has renewed or ended since."""
        lost = self._give_up(found, now)
        self._send_what_follows(lost, now)
        return len(lost)

    def recover(self, now: datetime, *, gone: Collection[str]) -> Reconciled:
        """Begin beside a broker that remembers nothing, after the nodes in *gone* went away.

        Everything that waits is published again; whatever reaches a worker twice is fenced.
        """
        lost = self._end_run_by(gone, now)
        self._send_what_follows([each for each in lost if each[1] is not State.RETRYING], now)
        republished = last = 0
        while waiting := self._claims.unfinished(after=last, limit=self._limit):
            sound = _sound(waiting)
            self._publisher.publish(sound, now=now)
            republished += len(sound)
            last = waiting[-1].id
        return Reconciled(republished=republished, lost=len(lost))

    def _end_lapsed(self, now: datetime) -> int:
        self._locked.begin_round()
        lost = self._end_pages(
            partial(self._claims.lapsed, now=now, limit=self._limit),
            lambda found: self._give_up(self._locked.renew_unlocked(found, now), now),
        )
        self._send_what_follows(lost, now)
        return len(lost)

    def _end_run_by(self, nodes: Collection[str], now: datetime) -> Sequence[GivenUp]:
        if not nodes:
            return ()
        return self._end_pages(
            partial(self._claims.run_by, nodes, limit=self._limit),
            partial(self._give_up, now=now),
        )

    def _end_pages(
        self,
        find: Callable[[], Sequence[Execution]],
        end: Callable[[Sequence[Execution]], Sequence[GivenUp]],
    ) -> Sequence[GivenUp]:
        ended: list[GivenUp] = []
        for _ in range(PAGES):
            found = find()
            ended += end(_sound(found))
            if len(found) < self._limit:
                break
        return ended

    def _give_up(self, found: Sequence[Execution], now: datetime) -> Sequence[GivenUp]:
        if not found:
            return ()
        finishes = [self._lost(execution, now) for execution in found]
        answers = self._attempts.give_up(finishes, now=now)
        self._locked.note(found, answers)
        ended: list[GivenUp] = []
        for finish, answer in zip(finishes, answers, strict=True):
            if isinstance(answer, Superseded | Busy):
                continue  # its owner was alive after all
            log_outcome(finish, answer, duration="unknown", policy=self._policy)
            if isinstance(answer, State) or answer.is_over:
                ended.append((finish, answer))
        return ended

    def _send_what_follows(self, ended: Sequence[GivenUp], now: datetime) -> None:
        following = (
            (follow_up(finish, state, now=now, seal=self._seal), finish.execution)
            for finish, state in ended
        )
        self._publish(
            [Sent.of(envelope, of) for envelope, of in following if envelope is not None], now
        )

    def _publish(self, following: Sequence[Sent], now: datetime) -> int:
        """Publish what follows attempts; answers of how many a queue has it."""
        if not following:
            return 0
        outcomes = self._broker.publish([each.envelope for each in following])
        self._publisher.missing_queues.note(following, outcomes, now=now)
        pairs = zip(following, outcomes, strict=True)
        confirmed = [each for each, outcome in pairs if outcome is Published.CONFIRMED]
        if last := [each.ticket for each in confirmed if is_last(each.envelope)]:
            self._claims.mark_ends_published(last)
            for ticket in last:
                self._logged.pop(ticket, None)
        return len(confirmed)

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
            random_fraction=self._random_fraction(),
        )
        return Finish(execution=execution, ran=AttemptResult(outcome=outcome), verdict=verdict)


def _sound(found: Sequence[Execution]) -> Sequence[Execution]:
    """Leave out what is broken, and say why the ledger has set it apart, where it could."""
    for execution in found:
        if execution.problem is not None and execution.state is State.QUARANTINED:
            text = (
                f"Execution {execution.id} of {execution.schedule_name} is quarantined, its row is "
                f"broken: {execution.problem}. Mend the row, then: cronhare failed replay"
            )
            say(log, logging.ERROR, "execution.broken", text)
    return [execution for execution in found if execution.problem is None]

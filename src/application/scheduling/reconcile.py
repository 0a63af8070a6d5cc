"""The loop that publishes again what no queue has, and ends attempts that were lost."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.lifecycle.retry_policies import RetryPolicies
from cronhare.domain.messages.messages import AttemptRef
from cronhare.domain.messages.signing import Seal
from cronhare.domain.retries.leaps import has_passed
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.retries.retry import decide
from cronhare.domain.schedules.skip_reasons import SkipKind
from cronhare.domain.texts.words import counted
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import AttemptStorePort, Busy, Finish, Superseded
from cronhare.ports.broker import BrokerPort, BrokerUnavailable, Published
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.runner import AttemptResult
from cronhare.ports.system import SILENT, MetricsPort

from ..logs import place_of, say
from ..outcome_log import log_late, log_let_go, log_limits, log_outcome
from ..publish import ExecutionPublisher, MissingQueues, Sent, follow_up, follow_up_late, is_last

log = logging.getLogger(__name__)

#: So often in a row a grace period may begin anew. What keeps failing must not keep the dead alive.
MOST_IN_A_ROW: Final = 20


class GapDetector:
    """Notices a suspend of the machine, or a clock that was set: no call fails by either.

    Both let leases lapse that could not be renewed. A gap below a third of a lease is ignored:
    owners renew theirs far more often.
    """

    def __init__(self, *, every: timedelta, lease: timedelta) -> None:
        """*every* is the longest time between two checks."""
        self._tolerance = lease / 3
        self._longest = every + lease / 3
        self._last: tuple[datetime, float] | None = None

    def check(self, now: datetime, at: float) -> str | None:
        """Describe the gap since the last check; None if there was none.

        *now* is the ledger's time, *at* that of a stopwatch that counts a suspend, in seconds.
        """
        last, self._last = self._last, (now, at)
        if last is None:
            return None
        passed = timedelta(seconds=at - last[1])
        leap = now - last[0] - passed
        if abs(leap) > self._tolerance:
            return f"the ledger's clock has leapt by {leap.total_seconds():+.0f} s against ours"
        if passed > self._longest:
            return f"nobody looked for {passed.total_seconds():.0f} s"
        return None


class GracePeriod:
    """The length of a lease after a gap, in which nothing that has lapsed is given up.

    Owners renew what they run, or record what has ended. Another gap meanwhile begins it anew, up
    to `MOST_IN_A_ROW` times; then what has lapsed is given up once in any case.
    """

    def __init__(self, lease: timedelta, *, owners: Callable[[], Collection[str]]) -> None:
        """*lease* is that of the workers; *owners* names the nodes that run something."""
        self._lease = lease
        self._owners = owners
        self._why: str | None = None
        self._until: datetime | None = None
        self._in_a_row = 0

    def begin(self, why: str) -> None:
        """Begin with the next call of `lasts`, because of *why*."""
        self._why = self._why or why

    def lasts(self, now: datetime) -> bool:
        """Tell whether nothing is to be given up at *now*."""
        why, self._why = self._why, None
        if why is not None and self._in_a_row < MOST_IN_A_ROW:
            self._in_a_row += 1
            self._until = now + self._lease
            if self._owners():  # of a new ledger there is nothing to log
                seconds = f"{self._lease.total_seconds():.0f} s"
                text = f"Workers have {seconds} to renew what they run: {why}"
                say(log, logging.INFO, "reconcile.spared", text)
        if self._until is not None and timedelta(0) < self._until - now <= self._lease:
            return True
        self._until, self._in_a_row = None, 0
        return False


#: So many rows are one page, and so many pages of a kind are worked through in one round.
PAGE, PAGES = 1_000, 10

T = TypeVar("T")


def pages(find: Callable[[], Sequence[T]], *, limit: int) -> Iterator[Sequence[T]]:
    """Find page after page, until one has fewer rows than *limit*, or the round is over."""
    for _ in range(PAGES):
        found = find()
        yield found
        if len(found) < limit:
            return


def without_broken(found: Sequence[Execution]) -> Sequence[Execution]:
    """Leave out broken rows: the ledger has quarantined them, and logged it."""
    return [execution for execution in found if execution.problem is None]


#: At so many gates a round looks. With more of them, the next round goes on from there.
GATES_PER_ROUND: Final = 200


@attrs.define(kw_only=True, eq=False)
class HeldBack:
    """Lets go what no worker has let go: it died, or a person changed a limit or a row."""

    _claims: ClaimStorePort
    _publisher: ExecutionPublisher
    _after: str = attrs.field(init=False, default="")

    def look(self, now: datetime) -> int:
        """Look at some gates at which something waits; answers how many executions go on."""
        gates = self._claims.gates(after=self._after, limit=GATES_PER_ROUND)
        self._after = gates[-1] if len(gates) == GATES_PER_ROUND else ""
        if not gates:
            return 0
        passed = self.let_go(gates, now)
        self._publisher.publish(passed, now=now)
        return len(passed)

    def let_go(self, gates: Collection[str], now: datetime) -> Sequence[Execution]:
        """Let go what may pass; it is still to be published."""
        answer = self._claims.let_go(gates, now=now)
        log_let_go(answer)
        return answer.executions


#: An attempt that was given up, and the state it has since.
GivenUp = tuple[Finish, State]

#: So many late ends are remembered as logged.
MOST_LOGGED: Final = PAGE * PAGES


@attrs.define(kw_only=True, eq=False)
class EndPublisher:
    """Publishes retries, failures and quarantines of attempts that a reconciler ended or found."""

    _claims: ClaimStorePort
    _broker: BrokerPort
    _missing_queues: MissingQueues
    _seal: Seal
    _graces: Graces
    _limit: int
    _logged: dict[AttemptRef, None] = attrs.field(init=False, factory=dict[AttemptRef, None])

    def publish(self, ended: Sequence[GivenUp], now: datetime) -> None:
        """Publish what follows these ends."""
        following = (
            (follow_up(finish, state, now=now, seal=self._seal), finish.execution)
            for finish, state in ended
        )
        self._publish(
            [Sent.of(envelope, of) for envelope, of in following if envelope is not None], now
        )

    def publish_overdue(self, now: datetime) -> None:
        """Publish what follows last attempts, where no queue is known to have it.

        Whoever ended them died since, or never learned that they had ended, or the broker was away.
        """
        if not self._broker.is_reachable():
            return  # or each would be logged, and sent in vain, again and again
        find = partial(self._claims.overdue_ends, now=now, graces=self._graces, limit=self._limit)
        for found in pages(find, limit=self._limit):
            following: list[Sent] = []
            for ended in found:
                self._log_once(ended)
                late = follow_up_late(ended, self._seal)
                following.append(
                    Sent(envelope=late, ticket=ended.ticket, schedule_name=ended.schedule_name)
                )
            if self._publish(following, now) < len(following):
                break

    def _log_once(self, ended: Archived) -> None:
        """Log an end once, however often its message has to be sent."""
        if ended.ticket in self._logged:
            return
        if len(self._logged) >= MOST_LOGGED:
            del self._logged[next(iter(self._logged))]
        self._logged[ended.ticket] = None
        log_late(ended)

    def _publish(self, following: Sequence[Sent], now: datetime) -> int:
        """Publish messages, and count those that a queue has."""
        if not following:
            return 0
        outcomes = self._broker.publish([each.envelope for each in following])
        self._missing_queues.note(following, outcomes, now=now)
        pairs = zip(following, outcomes, strict=True)
        confirmed = [each for each, outcome in pairs if outcome is Published.CONFIRMED]
        if last := [each.ticket for each in confirmed if is_last(each.envelope)]:
            self._claims.mark_ends_published(last)
            for ticket in last:
                self._logged.pop(ticket, None)
        return len(confirmed)


class LockedLeases:
    """Gives the owner of such a row another lease once the row is free.

    It is written into the row in the owner's name: so it holds for all replicas, and the row's
    version tells those that saw it locked that it was given. It is given once each time a row is
    locked. If it cannot be written, the next round tries once more, and then waits no longer.
    """

    def __init__(self, attempts: AttemptStorePort, lease: timedelta) -> None:
        """*lease* is that of the workers."""
        self._attempts = attempts
        self._lease = lease
        self._before: dict[int, int] = {}
        self._locked: dict[int, int] = {}  # versions of the rows that this round found locked
        self._unwritten: dict[int, int] = {}  # and of those whose leases it could not write
        self._unwritten_before: dict[int, int] = {}

    def begin_round(self) -> None:
        """Begin a round: what the last one did not find locked is forgotten."""
        self._before, self._locked = self._locked, {}
        self._unwritten_before, self._unwritten = self._unwritten, {}

    def note(self, found: Sequence[Execution], answers: Sequence[object]) -> None:
        """Note which of *found* could not be given up, as their rows are locked."""
        for each, answer in zip(found, answers, strict=True):
            if isinstance(answer, Busy):
                self._locked[each.id] = each.version

    def renew_unlocked(self, found: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Write a lease for those of *found* that were locked; answers the others."""
        known = self._before | self._locked
        others = []
        by_owner = defaultdict[str, list[Execution]](list)
        for each in found:
            if each.owner is not None and known.get(each.id) == each.version:
                by_owner[each.owner].append(each)
            else:
                others.append(each)
        for owner, theirs in by_owner.items():
            others += self._renew(owner, theirs, now)
        return others

    def _renew(self, owner: str, theirs: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Write leases in *owner*'s name; answers those for which that failed once before."""
        versions = {each.id: each.version for each in theirs}
        try:
            ids = versions.keys()
            renewal = self._attempts.renew(ids, now=now, node=owner, lease=self._lease)
        except LedgerUnavailable as error:
            text = f"No lease can be written for attempts of {owner} whose rows were held: {error}"
            say(log, logging.ERROR, "ledger.unavailable", text)
            self._locked.update(versions)
            self._unwritten.update(versions)
            return [one for one in theirs if self._unwritten_before.get(one.id) == one.version]
        self._locked.update({id_: versions[id_] for id_ in renewal.busy})
        return ()


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

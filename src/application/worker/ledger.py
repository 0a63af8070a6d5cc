"""The ledger as a worker asks it: its stores, the threads for them, batches, and the retries."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Generic, TypeVar
from uuid import UUID

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.messages import Signer
from cronhare.domain.retries.outcome import CrashPolicy
from cronhare.domain.retries.policy import exponential
from cronhare.domain.retries.retry import Holder
from cronhare.domain.schedules.catalog import Catalog
from cronhare.ports import LedgerBusy, LedgerUnavailable
from cronhare.ports.attempts import AttemptStorePort, RedeliveryStorePort
from cronhare.ports.broker import AsyncBrokerPort, Envelope, Published
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.records import Attempt
from cronhare.ports.runner import TaskRunnerPort
from cronhare.ports.system import NOT_TRACED, SILENT, ClockPort, MetricsPort, TracingPort

from ..ledger_threads import LedgerThreads
from ..logs import say
from ..outages import Outage
from .leases import LeaseKeeper

log = logging.getLogger(__name__)

#: Seconds between looks for a row that another session keeps locked, mostly for milliseconds. What
#: is to begin makes these, and then gives its place to others; an end goes on with the last one.
SHORT_PAUSES: Final = (0.01, 0.1, 1.0)

#: After so many looks, more than a second, a row that is still locked is logged.
LOOKS_BEFORE_WARNING: Final = len(SHORT_PAUSES) + 1

#: Seconds after which a ledger that is away is asked again: what waits begins that late at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0

#: After so many failures, more than three seconds, what is to begin gives its place to others if
#: the ledger answers at all; and after so many an end, which can wait without a place. A row that
#: is refused is told from an outage only beside others.
MOST_FAILURES, MOST_FAILURES_OF_AN_END = 6, 4

#: Seconds that one of many attempts waits for others to be started with: an ack and the delivery
#: that follows it take less. And to be finished with: ends are spread, and each batch that is saved
#: leaves the machine two milliseconds for tasks.
LINGERS = (0.004, 0.02)

#: For so many seconds what was answered together is expected to come back together.
LATELY = 0.1

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


class Draining(Exception):
    """The worker shuts down: what has not begun is not begun any more."""


@attrs.define(eq=False)
class _Call:
    """A call that is repeated until it is answered: a yes *may be written*, its answer lost."""

    may_be_written: bool = False
    failures: int = 0
    looks: int = 0

    def pause_before_look(self, busy: LedgerBusy) -> float:
        pause = SHORT_PAUSES[min(self.looks, len(SHORT_PAUSES) - 1)]
        self.looks += 1
        if self.looks == LOOKS_BEFORE_WARNING:
            say(log, logging.WARNING, "ledger.busy", str(busy))
        return pause


@attrs.define(eq=False)
class LedgerRetry:
    """Repeats calls of the ledger: for ever while the worker works, within bounds at shutdown.

    *timeout* is the length of a lease: after it the ledger lets others decide. *is_up* tells
    whether the ledger answers at all; *sleep* waits for so many seconds.
    """

    _clock: ClockPort
    _timeout: timedelta = attrs.field(kw_only=True)
    _is_up: Callable[[], Awaitable[bool]] = attrs.field(kw_only=True)
    _sleep: Callable[[float], Awaitable[object]] = attrs.field(kw_only=True, default=asyncio.sleep)
    _drained_at: float | None = attrs.field(init=False, default=None)
    _outage: Outage = attrs.field(init=False)
    #: An outage is over once none of them waits.
    _unanswered: set[_Call] = attrs.field(init=False, factory=set[_Call])

    def __attrs_post_init__(self) -> None:
        self._outage = Outage(log, "The ledger answers again", back="ledger.back")

    def drain(self) -> None:
        if self._drained_at is None:
            self._drained_at = self._clock.monotonic()

    async def to_begin(
        self,
        ask: Callable[[], Awaitable[T]],
        *,
        returned: bool = False,
        binding: bool = False,
    ) -> T:
        """Ask for something that has not begun yet, until there is an answer.

        A locked row is looked for again for a second, and then given up as busy; so is what gets no
        answer though the ledger is up. What has *returned* after that is asked for once.

        Where a yes is *binding*, nobody else could begin it in our place. So once one may have been
        written and lost, it is asked for until there is an answer, as ends are.

        Raises:
            Draining: the worker shuts down. The ledger may have written what it did not answer; if
                that is binding, it was away for a whole lease since.
            LedgerBusy: it cannot be had for now, while others can.
        """
        call, looks, failures = _Call(), len(SHORT_PAUSES), MOST_FAILURES
        if returned:
            looks, failures = 0, 1
        try:
            while self._drained_at is None or (call.may_be_written and not self._is_too_late()):
                try:
                    answer = await ask()
                except LedgerBusy as busy:
                    self._note_answer(call)
                    if call.looks >= looks and not call.may_be_written:
                        raise
                    pause = call.pause_before_look(busy)
                except LedgerUnavailable as error:
                    call.may_be_written |= binding and not error.changed_nothing
                    pause = self._note_failure(call, error)
                    gives_way = call.failures >= failures and not call.may_be_written
                    if gives_way and await self._is_up():
                        raise LedgerBusy(str(error)) from error
                else:
                    self._note_answer(call)
                    return answer
                await self._sleep(pause)
            raise Draining
        finally:
            self._unanswered.discard(call)

    async def to_finish(self, ask: Callable[[], Awaitable[T]], *, bounded: bool = False) -> T:
        """Record the end of something that was begun, until the ledger answers.

        Raises:
            LedgerBusy: it is *bounded*, and cannot be recorded for now, for whatever reason.
            LedgerUnavailable: the worker shuts down, and the ledger was away for a whole lease
                since.
        """
        call = _Call()
        try:
            while True:
                try:
                    answer = await ask()
                except LedgerBusy as busy:
                    self._note_answer(call)
                    if bounded or self._is_too_late():
                        raise
                    pause = call.pause_before_look(busy)
                except LedgerUnavailable as error:
                    if self._is_too_late():
                        raise
                    pause = self._note_failure(call, error)
                    if bounded and call.failures >= MOST_FAILURES_OF_AN_END:
                        raise LedgerBusy(str(error)) from error
                else:
                    self._note_answer(call)
                    return answer
                await self._sleep(pause)
        finally:
            self._unanswered.discard(call)

    def _is_too_late(self) -> bool:
        """Tell whether the timeout is over since the shutdown, however long was asked before."""
        if self._drained_at is None:
            return False
        return self._clock.monotonic() - self._drained_at >= self._timeout.total_seconds()

    def _note_answer(self, call: _Call) -> None:
        self._unanswered.discard(call)
        if not self._unanswered:
            self._outage.is_over()

    def _note_failure(self, call: _Call, error: LedgerUnavailable) -> float:
        self._unanswered.add(call)
        text = "The ledger does not answer, asking again"
        self._outage.lasts(logging.ERROR, "ledger.unavailable", text, error)
        call.failures += 1
        return exponential(FIRST_PAUSE, call.failures - 1, LONGEST_PAUSE)


def lock_wait(what: str, locked: str = "its row") -> str:
    return (
        f"{what} waits, because somebody else keeps {locked} locked: look in SHOW PROCESSLIST for "
        "a transaction that was left open"
    )


@attrs.define(eq=False)
class Batcher(Generic[Q, A]):
    """Turns single questions into calls of a function that answers many, in order.

    *ask* is called *in_thread*, never twice at a time, with at most *most* questions. While one
    batch is under way, the next one gathers, and then waits, for up to *linger* seconds, to become
    as large as the one before: what was answered together comes back together. A single question
    goes at once after another single one, and after a while in which nothing was asked.
    """

    _ask: Callable[[Sequence[Q]], Sequence[A | LedgerBusy]]
    _in_thread: LedgerThreads = attrs.field(kw_only=True)
    _most: int = attrs.field(kw_only=True, default=256)
    _linger: float = attrs.field(kw_only=True, default=0.0)
    _expected: int = attrs.field(init=False, default=1)  # the size of the last batch
    _answered_at: float = attrs.field(init=False, default=float("-inf"))
    _complete: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)
    _waiting: list[tuple[Q, asyncio.Future[A]]] = attrs.field(init=False, factory=list)
    _asking: asyncio.Task[None] | None = attrs.field(init=False, default=None)

    def submit(self, question: Q) -> "asyncio.Future[A]":
        """Ask; the answer is to be awaited. A `LedgerBusy` among the answers is raised there.

        `LedgerUnavailable` is raised for each question of a batch; any other error is raised for
        the question that causes it alone.
        """
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if len(self._waiting) >= self._expected:
            self._complete.set()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_all())
        return answer

    async def _ask_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                is_alone = loop.time() - self._answered_at >= LATELY
                if len(self._waiting) < self._expected and not is_alone:
                    self._complete.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._linger):
                            await self._complete.wait()
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                self._expected = len(batch)
                await self._ask_batch(batch)
                self._answered_at = loop.time()
        finally:
            self._asking = None

    async def _ask_batch(self, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        questions = [question for question, _ in batch]
        answered: list[tuple[tuple[Q, asyncio.Future[A]], A | Exception]]
        try:
            answers = await self._in_thread(partial(self._ask, questions))
            answered = list(zip(batch, answers, strict=True))
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            if len(batch) > 1 and not isinstance(error, LedgerUnavailable):
                for single in batch:  # which may be the fault of one question
                    await self._ask_batch([single])
                return
            answered = [(one, error) for one in batch]
        for (_, future), answer in answered:
            if future.cancelled():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


@attrs.frozen(kw_only=True, eq=False)
class WorkerLedger:
    """The ledger as a worker asks it. *lease* is that of the attempts.

    It has *threads* for batches, and others, *in_thread*, for calls that may wait for locks.
    """

    node: str
    attempts: AttemptStorePort
    claims: ClaimStorePort
    clock: ClockPort
    lease: timedelta
    threads: LedgerThreads = attrs.field(alias="executor", converter=LedgerThreads)
    in_thread: LedgerThreads = attrs.field(alias="locking_executor", converter=LedgerThreads)
    retry: LedgerRetry = attrs.field(init=False)

    @retry.default
    def _retry(self) -> LedgerRetry:
        return LedgerRetry(self.clock, timeout=self.lease, is_up=self._is_up)

    async def now(self) -> datetime:
        """Tell the time: at once, unless a clock has leapt; then the ledger is asked for it."""
        known = self.clock.peek()
        return known if known is not None else await self.in_thread(self.clock.now)

    async def _is_up(self) -> bool:
        try:
            await self.in_thread(self.claims.now)
        except LedgerUnavailable:
            return False
        return True


@attrs.define(kw_only=True, eq=False, slots=False)
class WorkerParts:
    """What a worker is made of: each part of it takes from here what it needs.

    *retry_delay* is how long a nacked message is away. *signer* signs and verifies our messages.
    *us* is who takes them, and *lives* tells whether a PID of our own place is in use; by
    *crash_policy* one that ends its workers is told from one that was unlucky. *in_memory* says
    where the broker is. *accepts_foreign* tells whether messages of others are run;
    *foreign_queues* are other programs'. *lingers* are seconds, see `LINGERS`. *read_again* reads
    the jobs file again if it has changed; *attempts_of* those of an execution before this one.
    *grace* is a shutdown's.
    """

    ledger: WorkerLedger
    broker: AsyncBrokerPort
    runner: TaskRunnerPort
    catalog: Catalog
    keeper: LeaseKeeper
    policies: RetryPolicies
    random_fraction: Callable[[], float]
    uuid: Callable[[], UUID]
    retry_delay: timedelta
    signer: Signer
    redeliveries: RedeliveryStorePort
    us: Holder
    lives: Callable[[int], bool]
    crash_policy: CrashPolicy
    in_memory: bool
    read_again: Callable[[], Awaitable[None]]
    attempts_of: Callable[[int], Sequence[Attempt]]
    grace: timedelta
    accepts_foreign: bool = True
    foreign_queues: Collection[str] = ()
    lingers: tuple[float, float] = LINGERS
    metrics: MetricsPort = SILENT
    tracing: TracingPort = NOT_TRACED

    async def publish(self, messages: Sequence[tuple[Execution, Envelope]], now: datetime) -> None:
        """Publish first attempts at once; what is in doubt is sent again by a reconciler."""
        answers = await asyncio.gather(*(self.broker.publish(each) for _, each in messages))
        pairs = zip(messages, answers, strict=True)
        sent = [one for (one, _), answer in pairs if answer is Published.CONFIRMED]
        if sent:
            with suppress(LedgerUnavailable):  # then they are sent once more, and fenced
                await self.ledger.in_thread(
                    lambda: self.ledger.claims.mark_published(sent, now=now)
                )

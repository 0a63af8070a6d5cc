"""The ledger as a worker asks it: its stores, the threads for them, and the retries."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, TypeVar

import attrs

from cronhare.domain.retries.backoff import Waits
from cronhare.ports.attempts import AttemptStorePort
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerBusy, LedgerUnavailable

from ..ledger_threads import LedgerThreads
from ..logs import say
from ..outages import Outage

log = logging.getLogger(__name__)

#: Seconds between looks for a row that another session keeps locked, mostly for milliseconds.
#: A cleanup, which can be repeated, makes all of them, about ten seconds; an end goes on with the
#: last. How long a start looks, is in `lock_waits`.
LOCK_PAUSES: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, *[1.0] * 9)

#: After so many looks, more than a second, a row that is still locked is logged.
LOOKS_BEFORE_WARNING: Final = 8

#: Seconds after which a ledger that is away is asked again: what waits begins that late at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0

#: A start that got no answer so often, while others of its kind got theirs in between, gives its
#: place away.
MOST_PASSED_BY = 4

#: An end does after so many failures in any case: it can wait without a place.
MOST_FAILURES_OF_AN_END = 4

#: After so many failures, more than three seconds, one start gives its place to another if the
#: ledger answers at all; so many seconds later the next one.
MOST_FAILURES, YIELD_EVERY = 6, 0.5

T = TypeVar("T")


class Draining(Exception):
    """The worker shuts down: what has not begun is not begun any more."""


class CallKind:
    """A kind of call. *answered* counts the answers that calls of the kind got.

    A call that gets none while others of its kind do has a trouble of its own: no outage.
    """

    answered = 0


class LedgerRetry:
    """Repeats calls of the ledger: for ever while the worker works, within bounds at shutdown.

    The ledger may answer some calls and not others: a rule may refuse each start, say, and no end.
    So the outage is over only once no call waits that failed.
    """

    def __init__(
        self,
        clock: ClockPort,
        *,
        timeout: timedelta,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        is_up: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """*timeout* is the length of a lease: after it the ledger lets others decide.

        *sleep* waits for so many seconds; *is_up* tells whether the ledger answers at all.
        """
        self._clock = clock
        self._timeout = timeout.total_seconds()
        self._sleep = sleep
        self._is_up = is_up
        self._yielded_at = float("-inf")
        self._drained_at: float | None = None
        self._outage = Outage(log, "The ledger answers again", back="ledger.back")
        self._unanswered: set[_Call] = set()

    def drain(self) -> None:
        """From now on begin nothing, and finish within the timeout."""
        if self._drained_at is None:
            self._drained_at = self._clock.monotonic()

    async def to_begin(
        self,
        ask: Callable[[], Awaitable[T]],
        *,
        pauses: Iterator[float],
        kind: CallKind | None = None,
        failures: int = MOST_FAILURES,
        binding: bool = False,
    ) -> T:
        """Ask for something that has not begun yet, until there is an answer.

        *pauses* gives the seconds between the looks for a locked row. It is given up as busy after
        the last of them; or once it was passed by of its *kind*; or after so many *failures*, one
        call at a time, though the ledger is up.

        Where a yes is *binding*, nobody else could begin it in our place. So once one may have been
        written and lost, it is asked for until there is an answer, as ends are.

        Raises:
            Draining: the worker shuts down. The ledger may have written what it did not answer; if
                that is binding, it was away for a whole lease since.
            LedgerBusy: it cannot be had for now, while others can.
        """
        with self._calling(kind) as call:
            while self._drained_at is None or (call.may_be_written and not self._is_too_late()):
                try:
                    return await self._answer(call, ask)
                except LedgerBusy as busy:
                    pause = call.look_again(busy) if call.may_be_written else next(pauses, None)
                    if pause is None:
                        raise
                    await self._sleep(pause)
                except LedgerUnavailable as error:
                    call.may_be_written |= binding and not error.changed_nothing
                    pause = self._note_failure(call, error)
                    if not call.may_be_written and (
                        call.is_passed_by
                        or (call.failures >= failures and await self._is_to_yield())
                    ):
                        raise LedgerBusy(str(error)) from error
                    await self._sleep(pause)
            raise Draining

    async def to_finish(self, ask: Callable[[], Awaitable[T]], *, bounded: bool = False) -> T:
        """Record the end of something that was begun, again and again unless *bounded*.

        Raises:
            LedgerBusy: it is bounded, and cannot be recorded for now, for whatever reason.
            LedgerUnavailable: the worker shuts down, and the ledger was away for a whole lease
                since.
        """
        with self._calling(None) as call:
            while True:
                try:
                    return await self._answer(call, ask)
                except LedgerBusy as busy:
                    if bounded or self._is_too_late():
                        raise
                    pause = call.look_again(busy)
                except LedgerUnavailable as error:
                    if self._is_too_late():
                        raise
                    pause = self._note_failure(call, error)
                    if bounded and call.failures >= MOST_FAILURES_OF_AN_END:
                        raise LedgerBusy(str(error)) from error
                await self._sleep(pause)

    def _is_too_late(self) -> bool:
        """Tell whether the timeout is over since the shutdown, however long was asked before."""
        if self._drained_at is None:
            return False
        return self._clock.monotonic() - self._drained_at >= self._timeout

    async def _is_to_yield(self) -> bool:
        """Tell whether a call that fails is to give its place away: the ledger answers others.

        Where all places wait for such calls, no other would ever be made.
        """
        now = self._clock.monotonic()
        if self._is_up is None or now - self._yielded_at < YIELD_EVERY:
            return False
        self._yielded_at = now
        return await self._is_up()

    @contextmanager
    def _calling(self, kind: CallKind | None) -> Iterator["_Call"]:
        call = _Call(kind or CallKind())
        try:
            yield call
        finally:
            self._unanswered.discard(call)

    async def _answer(self, call: "_Call", ask: Callable[[], Awaitable[T]]) -> T:
        try:
            answer = await ask()
        except LedgerBusy:  # which is an answer, too
            self._note_answer(call)
            raise
        call.kind.answered += 1
        self._note_answer(call)
        return answer

    def _note_answer(self, call: "_Call") -> None:
        self._unanswered.discard(call)
        if not self._unanswered:
            self._outage.is_over()

    def _note_failure(self, call: "_Call", error: LedgerUnavailable) -> float:
        """Log the outage, and give the seconds after which to ask again."""
        self._unanswered.add(call)
        text = "The ledger does not answer, asking again"
        self._outage.lasts(logging.ERROR, "ledger.unavailable", text, error)
        return call.next_pause()


class _Call:
    """A call that is repeated until it is answered."""

    def __init__(self, kind: CallKind) -> None:
        self.kind = kind
        self.may_be_written = False  # a yes, whose answer was lost
        self.failures = 0
        self._looks = 0
        self._pauses = Waits(FIRST_PAUSE, LONGEST_PAUSE)
        self._seen = kind.answered
        self._passed_by = 0

    @property
    def is_passed_by(self) -> bool:
        """Whether others of its kind were answered again and again, and it was not."""
        return self._passed_by >= MOST_PASSED_BY

    def next_pause(self) -> float:
        """Give the pause after a failure, ever longer."""
        self.failures += 1
        if self._seen != self.kind.answered:
            self._seen = self.kind.answered
            self._passed_by += 1
        return self._pauses.next()

    def look_again(self, busy: LedgerUnavailable) -> float:
        """Give the pause before the next look; a row that is locked for long is logged."""
        pause = LOCK_PAUSES[min(self._looks, len(LOCK_PAUSES) - 1)]
        self._looks += 1
        if self._looks == LOOKS_BEFORE_WARNING:
            say(log, logging.WARNING, "ledger.busy", str(busy))
        return pause


@attrs.frozen(kw_only=True, eq=False)
class WorkerLedger:
    """What the parts of a worker share.

    *executor* has the threads for the ledger, *locking_executor* those of calls that may wait for
    locks: `ask` and `in_thread` call in them. *lease* is that of the attempts.
    """

    node: str
    attempts: AttemptStorePort
    claims: ClaimStorePort
    clock: ClockPort
    lease: timedelta
    executor: Executor
    locking_executor: Executor
    ask: LedgerThreads = attrs.field(init=False)
    in_thread: LedgerThreads = attrs.field(init=False)
    retry: LedgerRetry = attrs.field(init=False)

    @ask.default
    def _ask(self) -> LedgerThreads:
        return LedgerThreads(self.executor)

    @in_thread.default
    def _in_thread(self) -> LedgerThreads:
        return LedgerThreads(self.locking_executor)

    @retry.default
    def _retry(self) -> LedgerRetry:
        return LedgerRetry(self.clock, timeout=self.lease, is_up=self._is_up)

    async def _is_up(self) -> bool:
        try:
            await self.in_thread(self.claims.now)
        except LedgerUnavailable:
            return False
        return True

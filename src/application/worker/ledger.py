"""The ledger as a worker asks it: its stores, the threads for them, and the retries."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final, TypeVar

import attrs

from cronhare.domain.retries.backoff import Waits
from cronhare.ports.attempts import AttemptStorePort
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.errors import LedgerBusy, LedgerUnavailable
from cronhare.ports.system import ClockPort

from ..ledger_threads import LedgerThreads
from ..logs import say
from ..outages import Outage

log = logging.getLogger(__name__)

#: Seconds between looks for a row that another session keeps locked, mostly for milliseconds. What
#: is to begin makes these, and then gives its place to others.
SHORT_PAUSES: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)

#: A cleanup, which can be repeated, looks for ten seconds; an end goes on with the last pause.
LOCK_PAUSES: Final = (*SHORT_PAUSES, *[1.0] * 9)

#: After so many looks, more than a second, a row that is still locked is logged.
LOOKS_BEFORE_WARNING: Final = len(SHORT_PAUSES) + 1

#: So many rows that may be locked are asked for in one statement: one keeps the others waiting.
LOCKED_AT_ONCE: Final = 4

#: Seconds after which a ledger that is away is asked again: what waits begins that late at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0

#: After so many failures an end gives its place away: it can wait without one.
MOST_FAILURES_OF_AN_END = 4

#: After so many, more than three seconds, a start does if the ledger answers others.
MOST_FAILURES = 6

T = TypeVar("T")


class Draining(Exception):
    """The worker shuts down: what has not begun is not begun any more."""


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
        is_up: Callable[[], Awaitable[bool]],
    ) -> None:
        """*timeout* is the length of a lease: after it the ledger lets others decide.

        *sleep* waits for so many seconds; *is_up* tells whether the ledger answers at all.
        """
        self._clock = clock
        self._timeout = timeout.total_seconds()
        self._sleep = sleep
        self._is_up = is_up
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
        pauses = iter(() if returned else SHORT_PAUSES)
        failures = 1 if returned else MOST_FAILURES
        with self._calling() as call:
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
                    is_to_yield = call.failures >= failures and not call.may_be_written
                    if is_to_yield and await self._is_up():
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
        with self._calling() as call:
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

    @contextmanager
    def _calling(self) -> Iterator["_Call"]:
        call = _Call()
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

    def __init__(self) -> None:
        self.may_be_written = False  # a yes, whose answer was lost
        self.failures = 0
        self._looks = 0
        self._pauses = Waits(FIRST_PAUSE, LONGEST_PAUSE)

    def next_pause(self) -> float:
        """Give the pause after a failure, ever longer."""
        self.failures += 1
        return self._pauses.next()

    def look_again(self, busy: LedgerUnavailable) -> float:
        """Give the pause before the next look; a row that is locked for long is logged."""
        pause = LOCK_PAUSES[min(self._looks, len(LOCK_PAUSES) - 1)]
        self._looks += 1
        if self._looks == LOOKS_BEFORE_WARNING:
            say(log, logging.WARNING, "ledger.busy", str(busy))
        return pause


def lock_wait(what: str, locked: str = "its row") -> str:
    """Say why something waits, and what to do."""
    return (
        f"{what} waits, because somebody else keeps {locked} locked: look in SHOW PROCESSLIST for "
        "a transaction that was left open"
    )


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

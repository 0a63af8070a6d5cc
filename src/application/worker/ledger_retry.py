"""Asking the ledger until it answers: its calls can be repeated, its silence means nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, TypeVar

from cronhare.domain.retries.backoff import Waits
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerBusy, LedgerUnavailable

from ..logs import say
from ..outages import Outage

log = logging.getLogger(__name__)

#: Seconds between looks for a row that another session keeps locked, mostly for milliseconds.
#: A cleanup, which can be repeated, makes all of them, about ten seconds; an end goes on with the
#: last. How long a start looks, is in `lock_waits`.
LOCK_PAUSES: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, *[1.0] * 9)

#: After so many looks, more than a second, a row that is still locked is logged.
LOOKS_BEFORE_WARNING: Final = 8

#: While the ledger is away, ask again after so many seconds: what waits begins that late at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0

#: Who would begin, and got no answer so often while others of its kind got theirs in between,
#: gives its place away.
MOST_PASSED_BY = 4

#: An end does after so many silences, whatever the others get: it needs no place to be told.
MOST_SILENCES_OF_AN_END = 4

#: After so many silences, more than three seconds, one of those who would begin makes room for
#: another, if the ledger answers at all; so many seconds later the next one.
MOST_SILENCES, ROOM_EVERY = 6, 0.5

T = TypeVar("T")


class Draining(Exception):
    """The worker shuts down: what has not begun is not begun any more."""


class Kind:
    """Those who ask for one kind of thing. *answered* counts the answers that they got so far.

    Who gets none, while others of its kind do, has a trouble of its own: no outage.
    """

    answered = 0


class LedgerRetry:
    """How long a worker asks: for ever while it works, within bounds once it shuts down.

    The ledger may answer some and not others: a rule may refuse each start, say, and no end. So
    the outage is over only once nobody waits who got no answer.
    """

    def __init__(
        self,
        clock: ClockPort,
        *,
        timeout: timedelta,
        rest: Callable[[float], Awaitable[object]] = asyncio.sleep,
        is_there: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """*timeout* is the length of a lease: after it the ledger lets others decide.

        *rest* waits for so many seconds; *is_there* tells whether the ledger answers at all.
        """
        self._clock = clock
        self._timeout = timeout.total_seconds()
        self._rest = rest
        self._is_there = is_there
        self._room_made_at = float("-inf")
        self._drained_at: float | None = None
        self._outage = Outage(log, "The ledger answers again", back="ledger.back")
        self._unanswered: set[_Asker] = set()

    def drain(self) -> None:
        """From now on begin nothing, and finish within the patience."""
        if self._drained_at is None:
            self._drained_at = self._clock.monotonic()

    async def to_begin(
        self,
        ask: Callable[[], Awaitable[T]],
        *,
        looks: Iterator[float],
        kind: Kind | None = None,
        silences: int = MOST_SILENCES,
        binding: bool = False,
    ) -> T:
        """Ask for something that has not begun yet.

        *looks* gives the seconds between the looks for what somebody else holds. Once they have
        ended it is given up, and once it was passed by of its *kind*; or after so many *silences*,
        by one at a time, though the ledger is there.

        Where a yes is *binding* nobody else could begin it in our place. So once one may have been
        written that was not heard, it is asked for until there is an answer, as ends are told.

        Raises:
            Draining: the worker shuts down. The ledger may have heard a question that it did not
                answer; if that is binding, it was away for a whole lease since.
            LedgerBusy: it cannot be had for now, while others can.
        """
        with self._asking(kind) as asker:
            while self._drained_at is None or (asker.is_bound and not self._is_too_late()):
                try:
                    return await self._answer(asker, ask)
                except LedgerBusy as busy:
                    pause = asker.looks_again(busy) if asker.is_bound else next(looks, None)
                    if pause is None:
                        raise
                    await self._rest(pause)
                except LedgerUnavailable as error:
                    asker.is_bound |= binding and not error.changed_nothing
                    pause = self._asks_again(asker, error)
                    if not asker.is_bound and (
                        asker.is_passed_by
                        or (asker.silences >= silences and await self._is_to_make_room())
                    ):
                        raise LedgerBusy(str(error)) from error
                    await self._rest(pause)
            raise Draining

    async def to_finish(
        self,
        ask: Callable[[], Awaitable[T]],
        *,
        gives_way: bool = False,
    ) -> T:
        """Tell the end of something that was begun, again and again unless it *gives_way*.

        Raises:
            LedgerBusy: it gives way, as it cannot be told for now, for whatever reason.
            LedgerUnavailable: the worker shuts down, and the ledger was away for a whole lease
                since.
        """
        with self._asking(None) as asker:
            while True:
                try:
                    return await self._answer(asker, ask)
                except LedgerUnavailable as error:
                    is_busy = isinstance(error, LedgerBusy)
                    if self._is_too_late():
                        raise
                    if is_busy and gives_way:
                        raise
                    if is_busy:
                        await self._rest(asker.looks_again(error))
                        continue
                    pause = self._asks_again(asker, error)
                    if gives_way and asker.silences >= MOST_SILENCES_OF_AN_END:
                        raise LedgerBusy(str(error)) from error
                    await self._rest(pause)

    def _is_too_late(self) -> bool:
        """Tell whether it shuts down, and was patient since: however long was asked before."""
        if self._drained_at is None:
            return False
        return self._clock.monotonic() - self._drained_at >= self._timeout

    async def _is_to_make_room(self) -> bool:
        """Tell whether what is asked for gets no answer, though the ledger is there.

        Where all places wait so, nobody else would ever ask.
        """
        now = self._clock.monotonic()
        if self._is_there is None or now - self._room_made_at < ROOM_EVERY:
            return False
        self._room_made_at = now
        return await self._is_there()

    @contextmanager
    def _asking(self, kind: Kind | None) -> Iterator["_Asker"]:
        asker = _Asker(kind or Kind())
        try:
            yield asker
        finally:
            self._unanswered.discard(asker)

    async def _answer(self, asker: "_Asker", ask: Callable[[], Awaitable[T]]) -> T:
        try:
            answer = await ask()
        except LedgerBusy:  # which is an answer, if not the one that was hoped for
            self._is_answered(asker)
            raise
        asker.kind.answered += 1
        self._is_answered(asker)
        return answer

    def _is_answered(self, asker: "_Asker") -> None:
        self._unanswered.discard(asker)
        if not self._unanswered:
            self._outage.is_over()

    def _asks_again(self, asker: "_Asker", error: LedgerUnavailable) -> float:
        """Tell of the outage, and give the seconds after which to ask again."""
        self._unanswered.add(asker)
        text = "The ledger does not answer, asking again"
        self._outage.lasts(logging.ERROR, "ledger.unavailable", text, error)
        return asker.next_pause()


class _Asker:
    """One who waits for an answer, or for a row that somebody else holds."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.is_bound = False  # a yes may have been written for it, and not heard
        self.silences = 0
        self._looks = 0
        self._pauses = Waits(FIRST_PAUSE, LONGEST_PAUSE)
        self._seen = kind.answered
        self._passed_by = 0

    @property
    def is_passed_by(self) -> bool:
        """Whether others of its kind were answered again and again, and it was not."""
        return self._passed_by >= MOST_PASSED_BY

    def next_pause(self) -> float:
        """Give the pause after a silence, ever longer."""
        self.silences += 1
        if self._seen != self.kind.answered:
            self._seen = self.kind.answered
            self._passed_by += 1
        return self._pauses.next()

    def looks_again(self, busy: LedgerUnavailable) -> float:
        """Give the pause before the next look, once it is told of that takes long."""
        pause = LOCK_PAUSES[min(self._looks, len(LOCK_PAUSES) - 1)]
        self._looks += 1
        if self._looks == LOOKS_BEFORE_WARNING:
            say(log, logging.WARNING, "ledger.busy", str(busy))
        return pause

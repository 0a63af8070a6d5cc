"""Notes what came of telling a target: as long as the event is this process's, again and again."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from cronhare.domain.lifecycle.events import OutboxRow, OutboxState, wait_after
from cronhare.domain.retries.backoff import Waits
from cronhare.ports import LedgerRefused, LedgerUnavailable
from cronhare.ports.events import EventStorePort, NotDelivered
from cronhare.ports.system import ClockPort

from ..ledger_threads import LedgerThreads
from ..logs import say

log = logging.getLogger(__name__)

#: Seconds before a result is noted again that the ledger could not take, at first and at the most.
NOTED_AGAIN_AFTER: Final = 0.5
NOTED_AGAIN_AT_LATEST: Final = 5.0


class Settler:
    """Notes results of what was taken; *ask* is for the ledger, and for its *clock*."""

    def __init__(self, *, store: EventStorePort, clock: ClockPort, ask: LedgerThreads) -> None:
        self._store = store
        self._clock = clock
        self._ask = ask

    async def is_ours(self, row: OutboxRow, *, telling: timedelta) -> bool:
        """Whether telling, which takes so long at most, is over before another may take it up.

        It is not where this process stood still after it had taken the event, and went on later.
        """
        until = row.next_try_at
        if until is None or await self._ask(self._clock.now) + telling <= until:
            return True
        text = (
            f"{row.target} is not told of {row.event_key}: this process stood still after it had "
            "taken it, so another one may have it"
        )
        say(log, logging.INFO, "event.not-delivered", text, **_place(row))
        return False

    async def delivered(self, row: OutboxRow) -> None:
        """Note that it was told."""
        text = f"Told {row.target} of {row.event_key}"
        say(log, logging.DEBUG, "event.delivered", text, **_place(row))
        await self._settle(row, OutboxState.DELIVERED)

    async def not_delivered(self, row: OutboxRow, failure: NotDelivered) -> None:
        """Note that it was not: it is tried again, or given up."""
        wait = None if failure.for_good else wait_after(row.tries, asked=failure.asked)
        text = f"{row.target} was not told of {row.event_key}: {failure}"
        if wait is None:
            text = f"{text}. Given up after try {row.tries}"
            say(log, logging.WARNING, "event.given-up", text, **_place(row))
            await self._settle(row, OutboxState.GIVEN_UP, error=str(failure))
            return
        text = f"{text}. Try {row.tries + 1} in {wait.total_seconds():g} s"
        say(log, logging.INFO, "event.not-delivered", text, **_place(row))
        await self._settle(row, OutboxState.WAITING, error=str(failure), wait=wait)

    async def _settle(
        self,
        row: OutboxRow,
        state: OutboxState,
        *,
        error: str | None = None,
        wait: timedelta | None = None,
    ) -> None:
        """Note it; while the ledger is away again, until another process may take the event up."""

        def note() -> bool:
            now = self._clock.now()
            next_ = None if wait is None else now + wait
            return self._store.settle(row, state, now=now, next_try_at=next_, error=error)

        pauses = Waits(NOTED_AGAIN_AFTER, NOTED_AGAIN_AT_LATEST)
        while (unknown := await self._failure(note)) is not None:
            is_away = isinstance(unknown, LedgerUnavailable)
            if not is_away or await self._ask(lambda: self._has_lapsed(row)):
                text = f"Whether {row.target} was told is not noted, and told again: {unknown}"
                say(log, logging.WARNING, "event.unknown", text, **_place(row))
                return
            await asyncio.sleep(pauses.next())

    async def _failure(
        self, note: Callable[[], object]
    ) -> LedgerUnavailable | LedgerRefused | None:
        try:
            await self._ask(note)
        except (LedgerUnavailable, LedgerRefused) as unknown:
            return unknown
        return None

    def _has_lapsed(self, row: OutboxRow) -> bool:
        return row.next_try_at is None or self._clock.now() >= row.next_try_at


def _place(row: OutboxRow) -> dict[str, Any]:
    place: dict[str, Any] = {"schedule": row.schedule_name}
    if row.execution_id is not None:
        place["execution"] = row.execution_id
    return place

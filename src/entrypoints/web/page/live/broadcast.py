"""One look for all who listen."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, TypeVar

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.ports import LedgerUnavailable

from ...asking import AT_A_TIME
from ...problems import RETRY_AFTER, Problem
from .feeds import Event, Feed

log = logging.getLogger(__name__)

T = TypeVar("T")

#: So many listen at a time: a quarter of the connections that there may be.
MOST_LISTENERS: Final = 32

#: So many feeds look at a time: however dear they are, whoever else asks finds a thread.
LOOKS_AT_A_TIME: Final = AT_A_TIME // 2

#: Letters that may wait for one listener; one that lets more wait is too slow, and is dropped.
MOST_WAITING: Final = 1024 * 1024


class Listener:
    """What waits for one who listens."""

    def __init__(self) -> None:
        """Nothing waits yet."""
        self._waiting, self._letters = deque[Event](), 0
        self._news = asyncio.Event()
        self._is_over = False

    def give(self, events: Sequence[Event]) -> None:
        """Let events wait; large ones alone make nobody slow."""
        if self._is_over:
            return
        letters = sum(len(event.data) for event in events)
        if self._waiting and self._letters + letters > MOST_WAITING:
            self._waiting.clear()
            self._is_over = True
        else:
            self._waiting += events
            self._letters += letters
        self._news.set()

    def end(self) -> None:
        """Let nothing come after what waits."""
        self._is_over = True
        self._news.set()

    async def take(self) -> Sequence[Event] | None:
        """Wait for events; None after the last."""
        while not self._waiting and not self._is_over:
            self._news.clear()
            await self._news.wait()
        if not self._waiting:
            return None
        taken = tuple(self._waiting)
        self._waiting.clear()
        self._letters = 0
        return taken


class _Channel:
    """A feed, and all who listen to it."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.listeners = set[Listener]()
        self.looking: asyncio.Task[None] | None = None


class Broadcast:
    """The feeds of a process, each while somebody listens."""

    def __init__(self, ask: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        """*ask* asks the ledger in a thread."""
        self._ask = ask
        self._channels = dict[str, _Channel]()
        self._turns = asyncio.Semaphore(LOOKS_AT_A_TIME)

    @property
    def listeners(self) -> int:
        """How many listen."""
        return sum(len(channel.listeners) for channel in self._channels.values())

    @asynccontextmanager
    async def listening(
        self, key: str, make: Callable[[], Feed], *, after: str | None
    ) -> AsyncIterator[Listener]:
        """Listen until the end of the block, to what comes after the event of that id.

        Raises:
            Problem: too many listen.
        """
        if self.listeners >= MOST_LISTENERS:
            detail = f"{MOST_LISTENERS} pages are live already; this one is not"
            headers = {"Retry-After": str(RETRY_AFTER)}
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers=headers)
        channel = self._channels.setdefault(key, _Channel(make()))
        listener = Listener()
        listener.give(channel.feed.after(after))
        channel.listeners.add(listener)
        if channel.looking is None:
            channel.looking = asyncio.create_task(self._look(key, channel))
        try:
            yield listener
        finally:
            channel.listeners.discard(listener)
            if not channel.listeners:
                self._forget(key, channel)
                channel.looking.cancel()

    async def _look(self, key: str, channel: _Channel) -> None:
        try:
            while not channel.feed.is_over:
                await self._look_once(channel)
                await asyncio.sleep(channel.feed.every)
        except NotFound:
            pass  # it was deleted meanwhile: nothing comes any more
        except Exception:
            log.exception("A live page met a fault of ours", extra={"action": "fault"})
        self._forget(key, channel)
        for listener in channel.listeners:
            listener.end()

    async def _look_once(self, channel: _Channel) -> None:
        try:
            new = await self._in_turn(channel.feed.look)
        except LedgerUnavailable:
            return  # it was logged; what is missed comes with a later look
        channel.feed.keep(new)
        for listener in channel.listeners:
            listener.give(new)

    async def _in_turn(self, look: Callable[[], T]) -> T:
        """Look in turn; a look to which nobody listens any more keeps its thread, and its turn."""
        await self._turns.acquire()
        asked = asyncio.ensure_future(self._ask(look))
        asked.add_done_callback(lambda _: self._turns.release())
        return await asyncio.shield(asked)

    def _forget(self, key: str, channel: _Channel) -> None:
        if self._channels.get(key) is channel:
            del self._channels[key]

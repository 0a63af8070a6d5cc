"""What is sent to open pages while it happens: server-sent events.

A *feed* looks into the ledger, once for all who listen, and only while somebody does. Each listener
is a response that goes on: bounded in number, in what waits for it, and in time; a slow one is
dropped, and comes back by itself. `static/live.js` is the other side.
"""

import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeVar
from uuid import uuid4

import attrs
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.reading.now import Overview
from cronhare.application.administration.reading.output import CutShort, Following, Moved, Written
from cronhare.domain.texts.moments import iso_moment
from cronhare.ports import LedgerUnavailable
from cronhare.ports.records import RecordsPort

from ..asking import AT_A_TIME
from ..problems import RETRY_AFTER, Problem
from ..protocol import STREAMS
from .pictures import minutes_chart

#: The feed of what happens now.
NOW: Final = "now"

#: Seconds between two looks at *Now*, and at what changes less often, or costs more to look at.
OFTEN: Final = 2.0
LESS_OFTEN: Final = 5.0

#: The parts of *Now*, each a template of its own.
PARTS: Final = ("figures", "running", "late", "failing", "coming", "latest", "nodes")

#: Letters of output that are kept for those who come later.
MOST_KEPT: Final = 512 * 1024

#: What is counted on by the page itself.
_COUNTED_ON: Final = re.compile(r"(<time [^>]*>)[^<]*")


@attrs.frozen
class Event:
    """Something new; *data* is JSON."""

    id: str
    name: str
    data: str


class Feed(Protocol):
    """Something to listen to. One thread at a time looks; another one keeps, and reads what is."""

    @property
    def every(self) -> float:
        """Seconds between two looks."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""

    def look(self) -> Sequence[Event]:
        """Give what is new since the last look."""

    def keep(self, new: Sequence[Event]) -> None:
        """Keep what a look has found for those who come later, as it is given to those there."""

    def after(self, id_: str | None) -> Sequence[Event]:
        """Give what a listener has missed whose last event had this id."""
        ...


class PartsFeed:
    """Sends those parts of a page that have changed; to a new listener, all of them."""

    is_over = False

    def __init__(
        self, render: Callable[[], tuple[datetime, Mapping[str, str]]], *, every: float = OFTEN
    ) -> None:
        """*render* makes all parts, and says of when they are."""
        self.every = every
        self._render = render
        self._parts: Mapping[str, str] = {}
        self._id, self._now = "", ""

    def look(self) -> Sequence[Event]:
        now, rendered = self._render()
        changed = {
            part: text
            for part, text in rendered.items()
            if _steady(text) != _steady(self._parts.get(part, ""))
        }
        self._parts, self._now = rendered, iso_moment(now)
        if not changed:
            return ()
        self._id = uuid4().hex
        return [self._event(changed)]

    def keep(self, new: Sequence[Event]) -> None:
        """See `Feed`: a part that comes twice takes its own place."""

    def after(self, id_: str | None) -> Sequence[Event]:
        return () if not self._parts or id_ == self._id else [self._event(self._parts)]

    def _event(self, parts: Mapping[str, str]) -> Event:
        return Event(self._id, NOW, json.dumps({"now": self._now, "parts": parts}))


def now_parts(overview: Overview, render: Callable[..., str]) -> tuple[datetime, Mapping[str, str]]:
    """Render the parts of *Now*; *render* makes a piece of a page of a template."""
    view = overview.now()
    context = {"view": view, "now": view.now, "chart": minutes_chart(view.coming_minutes)}
    return view.now, {part: render(f"now/{part}.html", **context) for part in PARTS}


def _steady(text: str) -> str:
    return _COUNTED_ON.sub(r"\1", text)


class OutputFeed:
    """Sends what an execution writes, line by line, and each state that it is seen in."""

    every = 1.0

    def __init__(self, records: RecordsPort, execution_id: int) -> None:
        self.is_over = False
        self._following = Following(records, execution_id)
        # Of this feed alone: another one that follows may have other numbers for the same lines.
        self._nonce, self._sent, self._kept = uuid4().hex, 0, 0
        self._events = deque[Event]()

    def look(self) -> Sequence[Event]:
        new: list[Event] = []
        for found in self._following.look():
            match found:
                case Written(attempt=attempt, stream=stream, line=line):
                    said = {"attempt": attempt, "stream": stream, **attrs.asdict(line)}
                    new.append(self._event("line", said))
                case CutShort(attempt=attempt, as_of=as_of):
                    new.append(self._event("cut", {"attempt": attempt, "as_of": iso_moment(as_of)}))
                case Moved(execution):
                    is_over = self._following.is_over
                    state, attempt = execution.state.value, execution.attempt
                    moved = {"state": state, "attempt": attempt, "over": is_over}
                    new.append(self._event("state", moved))
        self.is_over = self._following.is_over
        return new

    def after(self, id_: str | None) -> Sequence[Event]:
        """See `Feed`: one that listened to another feed begins anew."""
        nonce, _, number = (id_ or "").partition(".")
        if nonce == self._nonce and number.isdecimal():
            return [each for each in self._events if int(each.id.split(".")[1]) > int(number[:18])]
        return [Event(f"{self._nonce}.0", "anew", "{}"), *self._events]

    def keep(self, new: Sequence[Event]) -> None:
        self._events += new
        self._kept += sum(len(event.data) for event in new)
        while self._kept > MOST_KEPT:
            self._kept -= len(self._events.popleft().data)

    def _event(self, name: str, said: Mapping[str, Any]) -> Event:
        self._sent += 1
        return Event(f"{self._nonce}.{self._sent}", name, json.dumps(said))


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


#: Seconds of silence after which a sign of life is sent: proxies close what is silent.
_HEARTBEAT: Final = 15.0

#: Seconds after which a stream ends; the page asks again, and may by then no more be let in.
LONGEST: Final = 600.0

#: Milliseconds that a browser waits before it asks again.
_AGAIN: Final = 3_000


class EventStream(Response):
    """Server-sent events of a feed."""

    media_type = "text/event-stream"

    def __init__(
        self, broadcast: Broadcast, key: str, make: Callable[[], Feed], *, after: str | None
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._listening = broadcast.listening(key, make, after=after)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; see ASGI."""
        async with self._listening as listener:
            scope["state"][STREAMS] = True
            head = {"type": "http.response.start", "status": HTTPStatus.OK}
            await send({**head, "headers": self.raw_headers})
            gone = asyncio.create_task(_gone(receive))
            sending = asyncio.create_task(_send(listener, send))
            await asyncio.wait(
                {gone, sending}, timeout=LONGEST, return_when=asyncio.FIRST_COMPLETED
            )
            is_there = not gone.done()
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)
            if is_there:
                await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(listener: Listener, send: Send) -> None:
    await _write(send, f"retry: {_AGAIN}\n\n")
    while True:
        try:
            events = await asyncio.wait_for(listener.take(), _HEARTBEAT)
        except TimeoutError:
            await _write(send, ": alive\n\n")
            continue
        if events is None:
            return
        await _write(send, _text(events))


async def _write(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _text(events: Sequence[Event]) -> str:
    """Write events; their data is JSON, and has no line ends of its own."""
    return "".join(f"id: {one.id}\nevent: {one.name}\ndata: {one.data}\n\n" for one in events)

"""What is sent to open pages while it happens: server-sent events.

An open page has a response that goes on: it looks again and again at what the page shows, and sends
what is new. One look serves all pages that show the same. `static/live.js` is the other side.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

import attrs
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.reading.now import Overview
from cronhare.application.administration.reading.output import (
    CutShort,
    Following,
    Moved,
    Position,
    Written,
)
from cronhare.domain.texts.moments import iso_moment
from cronhare.ports import LedgerUnavailable
from cronhare.ports.records import RecordsPort

from ..asking import AT_A_TIME
from ..problems import RETRY_AFTER, Problem
from .pictures import minutes_chart

#: Asks the ledger in a thread.
Ask: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]

#: Renders all parts of a page, and says of when they are.
Render: TypeAlias = Callable[[], tuple[datetime, Mapping[str, str]]]

#: The feed of what happens now.
NOW: Final = "now"

#: Seconds between two looks at *Now*, and at what changes less often, or costs more to look at.
OFTEN: Final = 2.0
LESS_OFTEN: Final = 5.0

#: The parts of *Now*, each a template of its own.
PARTS: Final = ("figures", "running", "late", "failing", "coming", "latest", "nodes")

#: So many pages are live at a time: a quarter of the connections that there may be.
MOST_LISTENERS: Final = 32

#: So many look at a time: however dear their looks are, whoever else asks finds a thread.
LOOKS_AT_A_TIME: Final = AT_A_TIME // 2

#: Seconds after which a stream ends; the page asks again, and goes on where it was.
LONGEST: Final = 600.0

#: Seconds of silence after which a sign of life is sent: proxies close what is silent.
_HEARTBEAT: Final = 15.0

#: Milliseconds that a browser waits before it asks again.
_AGAIN: Final = 3_000

#: What is counted on by the page itself.
_COUNTED_ON: Final = re.compile(r"(<time [^>]*>)[^<]*")


@attrs.frozen
class Event:
    """Something new; *data* is JSON, and *id* says where to go on after it."""

    name: str
    data: str
    id: str = ""


class Feed(Protocol):
    """What one page listens to."""

    @property
    def every(self) -> float:
        """Seconds between two looks."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""

    async def new(self) -> Sequence[Event]:
        """Give what is new since the last look.

        Raises:
            NotFound: it is about nothing, or that was deleted.
            LedgerUnavailable: what is missed comes with a later look.
        """
        ...


class Look:
    """The parts of a page, rendered once for all who ask within so many seconds."""

    def __init__(self, ask: Ask, render: Render, every: float) -> None:
        """*ask* has them rendered in a thread."""
        self.every = every
        self._ask, self._render = ask, render
        self._one_at_a_time = asyncio.Lock()
        self._fresh_until = 0.0
        self._found: tuple[str, Mapping[str, tuple[str, str]]] = "", {}

    async def __call__(self) -> tuple[str, Mapping[str, tuple[str, str]]]:
        """Give of when the parts are, and each with that of it which makes it another one."""
        async with self._one_at_a_time:
            if (began := time.monotonic()) >= self._fresh_until:
                now, parts = await self._ask(self._render)
                steady = {
                    part: (text, _COUNTED_ON.sub(r"\1", text)) for part, text in parts.items()
                }
                self._found = iso_moment(now), steady
                self._fresh_until = began + self.every
        return self._found


class PartsFeed:
    """Sends all parts of a page, then those that have changed."""

    is_over = False

    def __init__(self, look: Look) -> None:
        self.every = look.every
        self._look = look
        self._sent = dict[str, str]()

    async def new(self) -> Sequence[Event]:
        """See `Feed`."""
        now, parts = await self._look()
        changed = {
            part: text
            for part, (text, steady) in parts.items()
            if steady != self._sent.get(part, "")
        }
        self._sent = {part: steady for part, (_, steady) in parts.items()}
        return [Event(NOW, json.dumps({"now": now, "parts": changed}))] if changed else ()


def now_parts(overview: Overview, render: Callable[..., str]) -> tuple[datetime, Mapping[str, str]]:
    """Render the parts of *Now*; *render* makes a piece of a page of a template."""
    view = overview.now()
    context = {"view": view, "now": view.now, "chart": minutes_chart(view.coming_minutes)}
    return view.now, {part: render(f"now/{part}.html", **context) for part in PARTS}


class OutputFeed:
    """Sends what an execution writes, line by line, and each state that it is seen in."""

    every = 1.0

    def __init__(
        self,
        ask: Ask,
        records: RecordsPort,
        execution_id: int,
        *,
        after: str | None,
    ) -> None:
        """*after* is the id of the last event that the page has; else it begins anew."""
        self._ask = ask
        try:
            self._following = Following(records, execution_id, Position.parse(after or ""))
            self._is_anew = False
        except ValueError:
            self._following = Following(records, execution_id)
            self._is_anew = True

    @property
    def is_over(self) -> bool:
        """See `Feed`."""
        return self._following.is_over

    async def new(self) -> Sequence[Event]:
        """See `Feed`."""
        found: Sequence[Event] = await self._ask(self._look)
        return found

    def _look(self) -> Sequence[Event]:
        new = [self._event("anew", {})] if self._is_anew else []
        self._is_anew = False
        for found in self._following.look():
            match found:
                case Written(attempt=attempt, stream=stream, line=line):
                    said = {"attempt": attempt, "stream": stream, **attrs.asdict(line)}
                    new.append(self._event("line", said))
                case CutShort(attempt=attempt, as_of=as_of):
                    new.append(self._event("cut", {"attempt": attempt, "as_of": iso_moment(as_of)}))
                case Moved(execution):
                    moved = {"state": execution.state.value, "attempt": execution.attempt}
                    new.append(self._event("state", {**moved, "over": self.is_over}))
        return new

    def _event(self, name: str, said: Mapping[str, Any]) -> Event:
        return Event(name, json.dumps(said), str(self._following.position))


class Streams:
    """The live pages of a process."""

    def __init__(self, ask: Ask, ending: asyncio.Event) -> None:
        """*ask* asks the ledger in a thread; with *ending* all streams end."""
        self.ending = ending
        self.listeners = 0
        self._ask = ask
        self._turns = asyncio.Semaphore(LOOKS_AT_A_TIME)
        self._looks = WeakValueDictionary[str, Look]()

    async def ask(self, question: Callable[[], Any]) -> Any:  # noqa: ANN401 - its answer
        """Ask the ledger, in turn."""
        async with self._turns:
            return await self._ask(question)

    def look(self, key: str, render: Render, *, every: float) -> Look:
        """Give the look that all share who ask for this *key*."""
        look = self._looks.get(key)
        if look is None:
            self._looks[key] = look = Look(self.ask, render, every)
        return look

    async def open(self, feed: Feed) -> "EventStream":
        """Answer with what a feed has now, and what comes.

        Raises:
            Problem: too many listen.
            NotFound: it is about nothing.
            LedgerUnavailable: it cannot be looked at.
        """
        if self.listeners >= MOST_LISTENERS:
            detail = f"{MOST_LISTENERS} pages are live already; this one is not"
            headers = {"Retry-After": str(RETRY_AFTER)}
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers=headers)
        self.listeners += 1  # until the end of the stream
        try:
            return EventStream(self, feed, await feed.new())
        except BaseException:
            self.listeners -= 1
            raise


class EventStream(Response):
    """A response that goes on until either side ends it, or its reader may read no more."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, feed: Feed, first: Sequence[Event]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._streams, self._feed, self._first = streams, feed, first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; see ASGI."""
        ends = {
            asyncio.create_task(_gone(receive)),
            asyncio.create_task(self._streams.ending.wait()),
        }
        try:
            head = {"type": "http.response.start", "status": HTTPStatus.OK}
            await send({**head, "headers": self.raw_headers})
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST):
                    await self._send(send, scope["state"]["readmit"], ends)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._streams.listeners -= 1  # only now: who does not read keeps its connection, too
            for task in ends:
                task.cancel()

    async def _send(
        self,
        send: Send,
        readmit: Callable[[], Awaitable[object]],
        ends: set["asyncio.Task[Any]"],
    ) -> None:
        text, spoken = f"retry: {_AGAIN}\n\n{_text(self._first)}", time.monotonic()
        while True:
            if not text and time.monotonic() > spoken + _HEARTBEAT:
                text = ": alive\n\n"
            if text:
                body = {"type": "http.response.body", "body": text.encode(), "more_body": True}
                await send(body)
                spoken = time.monotonic()
            if self._feed.is_over:
                return
            ended, _ = await asyncio.wait(
                ends, timeout=self._feed.every, return_when=asyncio.FIRST_COMPLETED
            )
            if ended:
                return
            try:
                await readmit()
                text = _text(await self._feed.new())
            except LedgerUnavailable:
                text = ""  # it was logged; what is missed comes with a later look
            except (NotFound, Problem):
                return  # it was deleted meanwhile, or who reads it has signed out


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _text(events: Sequence[Event]) -> str:
    """Write events; their data is JSON, and has no line ends of its own."""
    return "".join(f"id: {one.id}\nevent: {one.name}\ndata: {one.data}\n\n" for one in events)

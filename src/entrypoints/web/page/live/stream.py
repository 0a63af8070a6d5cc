"""A response that goes on: events as they come, until either side ends it."""

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...protocol import STREAMS
from .broadcast import Broadcast, Listener
from .feeds import Event, Feed

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

"""HTTP/1.1 connections with bounds: how many there are, and how long each may take."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from fcntl import ioctl
from http import HTTPStatus
from termios import FIONREAD
from typing import Final

import h11
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from cronhare.application.logs import say

from .places import Loss, bound_untaken, made_room
from .problems import Problem

log = logging.getLogger(__name__)

#: Connections at a time. One more takes the place of the one that would lose least, see `Loss`;
#: where all are at work it is told so, and twice as many are closed at once.
MOST_CONNECTIONS: Final = 128

#: Seconds in which one may begin its request, or take its answer, before it counts as idle.
BREATH: Final = 1.0

#: Bytes of answers that wait to be taken, of all connections together: a page of a list may have
#: 10 MB, and each connection waits for one.
MOST_UNTAKEN: Final = 64 << 20

#: Bytes of a request's line and headers.
LARGEST_HEAD: Final = 16 * 1024

#: Seconds in which a request must have come as a whole, and its answer have been taken.
ARRIVAL, ANSWER = 10.0, 60.0

#: Seconds for which one without a place may ask, to be told that it has none.
REFUSAL = 1.0

#: The member of a request's state with which an answer says that it goes on: it may take as long as
#: it is read, and is ended by a shutdown.
STREAMS: Final = "streams"


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, which by itself waits for ever for the rest of a request."""

    _deadline: asyncio.TimerHandle | None = None
    _answering = False
    _has_no_place = False
    _hears_no_more = False
    _idle_since = 0.0
    _waits_to_be_taken = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.access_log = False  # the guard logs, and no query
        self._idle_since = self.loop.time()
        transport.set_write_buffer_limits(HIGH_WATER_LIMIT, low=0)
        others = [each for each in self._ours() if each is not self and each.has_place()]
        if len(others) < MOST_CONNECTIONS or made_room(others):
            self._give(ARRIVAL)
        elif len(others) < 2 * MOST_CONNECTIONS:
            self._has_no_place = True
            self._give(REFUSAL)
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read on, or tell that all places are taken."""
        if not self._has_no_place:
            if not self._answering and not self._has_begun():
                self._idle_since = self.loop.time()
            super().data_received(data)
        elif self.is_open():
            self._tell(_FULL, with_body=not data.startswith(b"HEAD "))

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer whoever has sent all it will; who has no request here, or follows one, is gone."""
        self._hears_no_more = self._answering and not self._streams()
        return self._hears_no_more

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._give(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Note when a request has come as a whole."""
        super().handle_events()
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        if cycle is None or cycle.more_body or cycle.response_complete:
            return
        if not self._answering:
            self._answering = True
            self._idle_since = self.loop.time()
            self._give(ANSWER)

    def on_response_complete(self) -> None:
        """Go on to the next request once this answer has been taken, and no sooner.

        Else each request that was sent ahead would cost an answer that nobody takes.
        """
        self._answering = False
        if self.transport.get_write_buffer_size():
            self._waits_to_be_taken = True
            self._idle_since = self.loop.time()
            self._give(ANSWER)
            self.flow.pause_reading()
            self.transport.set_write_buffer_limits(0)  # to be told when it is empty
        else:
            self._go_on()

    def pause_writing(self) -> None:
        """Begin to wait until this is taken, if that is not too much with what others wait for."""
        super().pause_writing()
        self._idle_since = self.loop.time()
        bound_untaken(self._ours(), MOST_UNTAKEN)

    def resume_writing(self) -> None:
        """Go on: all that was written has been taken."""
        super().resume_writing()
        if self._waits_to_be_taken:
            self._waits_to_be_taken = False
            self.transport.set_write_buffer_limits(HIGH_WATER_LIMIT, low=0)
            self.loop.call_soon(self._go_on)  # the transport may not be closed within this

    def shutdown(self) -> None:
        """End what would go on; wait for other answers."""
        if self._streams():
            self.transport.abort()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or has too large a head; no application sees it."""
        client = self.client[0] if self.client else ""
        say(log, logging.INFO, "web.request", "What is no request: 400", client=client)
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()  # within an answer
            return
        self._tell(Problem(HTTPStatus.BAD_REQUEST, f"this is no HTTP/1.1 request: {msg}"))

    def is_open(self) -> bool:
        """Whether this is not being closed already."""
        return not self.transport.is_closing()

    def has_place(self) -> bool:
        """Whether this costs something, and be it what waits to be taken before it is closed."""
        return self.is_open() or self.transport.get_write_buffer_size() > 0

    def standing(self) -> tuple[Loss, float] | None:
        """Say what this would lose with its place, and since when it is idle; None while at work.

        Who has just come is not at rest: under a flood of others it would be gone before it asks.
        """
        breath_began = self.loop.time() - BREATH
        if self.transport.get_write_buffer_size():
            is_idle = self._idle_since <= breath_began
            return (Loss.ANSWER, self._idle_since) if is_idle else None
        if self._answering:
            return None
        is_at_rest = self._idle_since <= breath_began and not self._has_begun()
        return (Loss.NOTHING if is_at_rest else Loss.REQUEST), self._idle_since

    def has_unread(self) -> bool:
        """Whether bytes have come that are about to be read: they may be a whole request."""
        size = ioctl(self.transport.get_extra_info("socket").fileno(), FIONREAD, bytes(4))
        return int.from_bytes(size, sys.byteorder) > 0

    def _ours(self) -> Iterator["BoundedProtocol"]:
        return (each for each in self.connections if isinstance(each, BoundedProtocol))

    def _go_on(self) -> None:
        if not self.is_open():
            return
        self._idle_since = self.loop.time()
        self._give(ARRIVAL)
        super().on_response_complete()
        if self._hears_no_more and not self._answering:
            self.transport.close()

    def _has_begun(self) -> bool:
        return self.conn.their_state is not h11.IDLE or bool(self.conn.trailing_data[0])

    def _tell(self, problem: Problem, *, with_body: bool = True) -> None:
        # What no application sees is answered here, and is the last on its connection.
        answer = problem.response
        head = h11.Response(
            status_code=answer.status_code,
            headers=[*answer.raw_headers, (b"connection", b"close")],
            reason=HTTPStatus(answer.status_code).phrase.encode(),
        )
        self.transport.write(self.conn.send(head) or b"")
        if with_body:
            for event in (h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _give(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        # What waits to be read for as long as this is not read at all.
        if self._streams() and not self.transport.get_write_buffer_size():
            self._give(ARRIVAL)
        else:
            self.transport.abort()

    def _streams(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return self._answering and cycle is not None and STREAMS in cycle.scope.get("state", {})


_FULL: Final = Problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "all connections that this process takes are at work; try again in a second",
    headers={"Retry-After": "1"},
)

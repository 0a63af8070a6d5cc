"""HTTP/1.1 connections with bounds: how many there are, and how long each may take."""

import asyncio
import logging
from collections.abc import Iterable
from http import HTTPStatus
from operator import itemgetter
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from cronhare.application.logs import say

from .problems import Problem

log = logging.getLogger(__name__)

#: Connections at a time. One more takes the place of the one that has been without a request for
#: longest; where all are at work it is told so, and twice as many are closed at once.
MOST_CONNECTIONS: Final = 128

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
    _rests_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.access_log = False  # the guard logs, and no query
        self._rests_since = self.loop.time()
        ours = (each for each in self.connections if isinstance(each, BoundedProtocol))
        others = [each for each in ours if each is not self and each.is_open()]
        if len(others) < MOST_CONNECTIONS or _made_room(others):
            self._give(ARRIVAL)
        elif len(others) < 2 * MOST_CONNECTIONS:
            self._has_no_place = True
            self._give(REFUSAL)
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read on, or tell that all places are taken."""
        if not self._has_no_place:
            super().data_received(data)
        elif self.is_open():
            self._tell(_FULL, with_body=not data.startswith(b"HEAD "))

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
            self._give(ANSWER)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._answering = False
        self._rests_since = self.loop.time()
        self._give(ARRIVAL)
        super().on_response_complete()

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

    def rests_since(self) -> float | None:
        """Since when no request has come as far as its body; None while there is one."""
        is_at_work = self._answering or self.conn.their_state is not h11.IDLE
        return None if is_at_work else self._rests_since

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


def _made_room(others: Iterable[BoundedProtocol]) -> bool:
    # Whoever holds a place without asking loses it: a client at rest connects again unharmed.
    resting = [(since, each) for each in others if (since := each.rests_since()) is not None]
    if not resting:
        return False
    min(resting, key=itemgetter(0))[1].transport.abort()
    return True

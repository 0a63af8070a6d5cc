"""HTTP/1.1 connections with bounds that uvicorn lacks: how long a request and an answer may take.

How many are answered, and the size of a head, are uvicorn's own limits (`server.make_server`).
Readers that are slow on purpose are a reverse proxy's work (docs/howto/behind-a-proxy.md).
"""

import asyncio
import logging
from http import HTTPStatus
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from cronhare.application.logs import say

from .problems import Problem

log = logging.getLogger(__name__)

#: Connections and requests at a time; uvicorn answers one more with 503, once it asks. What does
#: not ask has a descriptor, and tasks need some to start: so many are open, one more is closed.
MOST_CONNECTIONS, MOST_OPEN = 128, 256

#: Bytes of a request's line and headers.
LARGEST_HEAD: Final = 16 * 1024

#: Seconds in which a request must have come as a whole, and its answer have been taken.
ARRIVAL, ANSWER = 10.0, 60.0

#: The member of a request's state with which an answer says that it goes on: it may take as long as
#: it is read, and is ended by a shutdown.
STREAMS: Final = "streams"


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, which by itself waits for ever for the rest of a request."""

    _deadline: asyncio.TimerHandle | None = None
    _answering = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.access_log = False  # the guard logs, and no query
        if len(self.connections) > MOST_OPEN:
            transport.abort()
        else:
            self._give(ARRIVAL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._give(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Note when a request has come as a whole."""
        super().handle_events()
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        if cycle is None or cycle.more_body or cycle.response_complete or self._answering:
            return
        self._answering = True
        self._give(ANSWER)

    def on_response_complete(self) -> None:
        """Wait for the next request, and until this answer has been taken."""
        self._answering = False
        self._give(ANSWER if self.transport.get_write_buffer_size() else ARRIVAL)
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
        problem = Problem(HTTPStatus.BAD_REQUEST, f"this is no HTTP/1.1 request: {msg}")
        answer = problem.response
        head = h11.Response(
            status_code=answer.status_code,
            headers=[*answer.raw_headers, (b"connection", b"close")],
            reason=HTTPStatus(answer.status_code).phrase.encode(),
        )
        for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
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

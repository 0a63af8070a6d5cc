"""The life of `cronhare web`: it listens, and answers until a signal comes."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv6Address
from typing import Final

import anyio._backends._asyncio  # noqa: F401 - anyio would import it with the first request
import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from cronhare.adapters.addresses import ListenAddress
from cronhare.application.logs import say

from ..container import Container
from ..processes.lifetime import answers
from ..processes.loops import wait_at_most
from ..signals import Shutdown
from .application import make_application
from .asking import AT_A_TIME

log = logging.getLogger(__name__)

#: Seconds that requests under way have in a shutdown, and until a connection at rest is closed.
ENDING: Final = 5
AT_REST: Final = 5

#: Connections and requests at a time; uvicorn answers one more with 503, once it asks. What does
#: not ask is closed after `ARRIVAL`.
MOST_CONNECTIONS: Final = 128

#: Bytes of a request's line and headers.
LARGEST_HEAD: Final = 16 * 1024

#: Seconds in which a request must have come as a whole. How fast its answer is read is a reverse
#: proxy's work (docs/howto/behind-a-proxy.md).
ARRIVAL = 10.0

#: Seconds between looks whether it listens: the library tells nobody.
_LOOK: Final = 0.01


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, which by itself waits for ever for the rest of a request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.access_log = False  # the guard logs, and no query
        self._wait(ARRIVAL)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            self._wait(None)

    def on_response_complete(self) -> None:
        self._wait(ARRIVAL)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or has too large a head; no application sees it."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.abort()  # within an answer

    def _wait(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = (
            None if seconds is None else self.loop.call_later(seconds, self.transport.abort)
        )


class Server(uvicorn.Server):
    """A server whose process answers the signals itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(address: ListenAddress) -> socket.socket:
    """Take an address, without listening yet.

    Raises:
        OSError: another program has it, or this machine has not.
    """
    family = socket.AF_INET6 if isinstance(address.host, IPv6Address) else socket.AF_INET
    # Over what says that it is TCP asyncio sends at once (TCP_NODELAY); else a small answer waits
    # 40 ms, between its head and its body, for the client's delayed ACK.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((str(address.host), address.port))
    except OSError:
        bound.close()
        raise
    return bound


async def run(container: Container, shutdown: Shutdown, bound: socket.socket) -> None:
    vitals = container.vitals()
    vitals.proofs.need("ledger", partial(answers, container.claims()))
    vitals.measures_ledger = True
    forced_exit = shutdown.forced_exit
    await serve(container, shutdown.requested, bound, on_end=forced_exit.waits_for)
    forced_exit.leaving()


async def serve(
    container: Container,
    requested: asyncio.Event,
    bound: socket.socket,
    *,
    seconds: int = ENDING,
    on_end: Callable[[str], object] = lambda _: None,
) -> None:
    """Answer until that is requested, and let what is under way have so many *seconds*.

    *on_end* is told what is waited for then.
    """
    executor = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="web")
    config = uvicorn.Config(
        make_application(container, executor),
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        limit_concurrency=MOST_CONNECTIONS,
        backlog=MOST_CONNECTIONS,  # so many are accepted at once, before one is counted
        timeout_keep_alive=AT_REST,
        timeout_graceful_shutdown=seconds,
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    ending = asyncio.create_task(requested.wait())
    host, port = bound.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    while not server.started and not serving.done():  # noqa: ASYNC110 - it has no event for it
        await asyncio.sleep(_LOOK)
    say(log, logging.INFO, "begun", f"Page and API at http://{address}")
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    on_end("requests under way")
    # It gives up what takes longer; the rest is for its own steps.
    await wait_at_most(2 * seconds, "requests under way", serving)
    ending.cancel()
    executor.shutdown(wait=False, cancel_futures=True)

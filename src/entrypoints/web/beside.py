"""The API and the page beside scheduler and worker, in the process of `cronhare up`.

They have a thread and an event loop of their own, so that no request delays the start of a task.
Their libraries are imported there, after the first runs have begun.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from socket import socket
from typing import Final

from cronhare.adapters.extras import ExtraMissing, require
from cronhare.application.logs import say
from cronhare.ports import LedgerUnavailable

from ..container import Container
from ..processes.lifetime import refuse_without_token
from ..processes.loops import wait_at_most
from ..settings.settings import SettingsInvalid

log = logging.getLogger(__name__)

#: Seconds that requests under way have in a shutdown: it is to be as quick as without them.
ENDING: Final = 1

#: Seconds between two looks, and after which the first round is not waited for any longer.
_LOOK: Final = 0.05
_PATIENCE: Final = 10.0

#: Seconds from the first round to the imports: they take as much of the interpreter as the starts
#: of the runs that were due with it.
_HEAD_START: Final = 1.0


class WebBeside:
    """Answers beside the work of this process, from its first round to its shutdown.

    Whatever keeps it from that is one line in the log: the work goes on without it.
    """

    def __init__(self, container: Container, *, has_begun: Callable[[], bool]) -> None:
        self._container = container
        self._has_begun = has_begun
        self._is_over = threading.Event()
        self._ending: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Take no more requests, and wait for those under way for `ENDING` seconds at most."""
        self._is_over.set()
        with self._lock:
            if self._ending is not None:
                loop, ending = self._ending
                loop.call_soon_threadsafe(ending.set)
        ended = asyncio.to_thread(self._thread.join, 2 * ENDING)
        await wait_at_most(2 * ENDING, "requests under way", ended)

    def _run(self) -> None:
        give_up_at = time.monotonic() + _PATIENCE
        while not self._has_begun() and time.monotonic() < give_up_at:
            if self._is_over.wait(_LOOK):
                return
        if self._is_over.wait(_HEAD_START):
            return
        try:
            self._answer()
        except Exception:
            text = "The API and the page met a fault of ours; all else goes on"
            log.exception("%s", text, extra={"action": "web.fault"})

    def _answer(self) -> None:
        settings = self._container.settings()
        address = f"{settings.called('web_address')}: {settings.listen_address}"
        try:
            require("web")
            refuse_without_token(self._container)
        except (ExtraMissing, SettingsInvalid, LedgerUnavailable) as error:
            self._refuse(str(error))
            return
        from . import server  # noqa: PLC0415 - as said above

        try:
            bound = server.bind(settings.listen_address)
        except OSError as error:
            self._refuse(f"{address}: {error.strerror}; name another one")
            return
        asyncio.run(self._serve(server.serve, bound))

    async def _serve(self, serve: Callable[..., Awaitable[None]], bound: socket) -> None:
        ending = asyncio.Event()
        with self._lock:
            self._ending = (asyncio.get_running_loop(), ending)
        if self._is_over.is_set():
            bound.close()
            return
        await serve(self._container, ending, bound, seconds=ENDING)

    def _refuse(self, why: str) -> None:
        text = f"No API and no page: {why}. Or leave them out: --no-web"
        say(log, logging.WARNING, "web.closed", text)

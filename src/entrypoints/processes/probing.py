"""The probes of a process: they are answered from its first to its last moment."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cronhare.application.heartbeat import Heartbeat
from cronhare.application.logs import say
from cronhare.ports.claims import ClaimStorePort

from ..container import Container
from ..probes.turns import Turn
from ..settings.settings import SettingsInvalid
from ..signals.shutdown import Shutdown
from .loops import Loop

if TYPE_CHECKING:
    from ..probes.server import ProbeServer

log = logging.getLogger(__name__)

#: Seconds between two beats of the event loop.
BEAT = 5.0


class Probes:
    """Answers at `CRON_PROBE_ADDRESS`, if there is one."""

    def __init__(self, container: Container, shutdown: Shutdown) -> None:
        """Take the address.

        Raises:
            SettingsInvalid: it cannot be had.
        """
        self._container = container
        self._vitals = container.vitals()
        self._vitals.proofs.ends_with(shutdown.requested.is_set)
        self._server = _bound(container)

    def start(self) -> None:
        """Begin to answer, and to look at the servers."""
        if self._server is None:
            return
        self._server.start()
        Loop("proofs", self._vitals.proofs.round).start()
        host, port = self._server.server_name, self._server.server_port
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        text = f"Probes at http://{where}: /healthz, /readyz, /metrics"
        say(log, logging.INFO, "probes", text)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Show that the event loop turns, whether it is asked for here or beside the page."""
        task = asyncio.create_task(self._beat(), name="beat")
        try:
            yield
        finally:
            task.cancel()

    async def _beat(self) -> None:
        turn = Turn("event loop")
        self._vitals.turns.watch([turn])
        try:
            while True:
                turn.begin()
                turn.rest(BEAT)
                await asyncio.sleep(BEAT)
        finally:
            turn.end()

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def answers(claims: ClaimStorePort) -> bool:
    """Tell whether the ledger answers; it may raise that it does not.

    With its time alone a ledger in a file would prove nothing.
    """
    claims.next_due()
    return True


def offset_of(heartbeat: Heartbeat) -> Callable[[], float | None]:
    """Tell how many seconds our clock is ahead of the ledger's, as a heartbeat last measured it."""
    return lambda: None if heartbeat.offset is None else heartbeat.offset.total_seconds()


def _bound(container: Container) -> "ProbeServer | None":
    settings = container.settings()
    if (address := settings.probes) is None:
        return None
    # Of those who answer no probes nobody waits for this: 20 ms.
    from prometheus_client import make_wsgi_app  # noqa: PLC0415

    from ..probes.application import probe_application  # noqa: PLC0415
    from ..probes.server import ProbeServer  # noqa: PLC0415

    container.counting()  # it joins the registry
    vitals = container.vitals()
    app = probe_application(
        health=vitals.turns.faults,
        readiness=vitals.proofs.faults,
        metrics=make_wsgi_app(container.registry()),
    )
    try:
        return ProbeServer(address, app)
    except OSError as error:
        fault = f"{settings.called('probe_address')}: {address}: {error.strerror}"
        raise SettingsInvalid((fault,)) from error

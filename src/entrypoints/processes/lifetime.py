"""What the life of every process that lives long has: a first line, its signals, a last line."""

import asyncio
import email.utils  # noqa: F401 - see `preload`: somebody's Retry-After is a date
import encodings.idna  # noqa: F401 - a host's name is looked up
import gc
import linecache
import logging
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import croniter  # noqa: F401 - the first expression with a range is perhaps planned in a month

import cronhare.adapters.sql.claims.plans  # what lists of a ledger do without
import cronhare.adapters.sql.limits
import cronhare.adapters.sql.records.retention  # noqa: F401
from cronhare.adapters.addresses import BrokerServer
from cronhare.adapters.system.host import be_private
from cronhare.application.heartbeat import Heartbeat
from cronhare.application.logs import say
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from cronhare.ports.broker import BrokerUnavailable
from cronhare.ports.claims import ClaimStorePort

from .. import json_text, logs  # noqa: F401
from ..container import Container
from ..container import preload as preload_parts
from ..settings.settings import SettingsInvalid
from ..signals import Answer, ForcedExit, Shutdown, SignalHandlers
from ..vitals import Proofs, Turn
from ..working import WorkingContainer
from .loops import Loop

if TYPE_CHECKING:
    from ..probes import ProbeServer


def refuse_without_token(container: Container) -> None:
    """Refuse an address of CRON_WEB_ADDRESS that others reach, unless there is a valid token.

    Raises:
        SettingsInvalid: there is none, with how to make one.
        LedgerUnavailable: nobody can tell yet.
    """
    settings = container.settings()
    if settings.listen_address.is_loopback:
        return
    try:
        if container.admission().valid():
            return
    except LedgerOutdated:
        pass  # where no ledger is, or an older one, no token is either
    fault = (
        f"{settings.called('web_address')}: {settings.listen_address.host} is no loopback address: "
        "others reach it, and there is no valid token by which it would be known who asks. Make "
        "one (cronhare tokens create NAME --scope admin), and start this again"
    )
    raise SettingsInvalid((fault,))


log = logging.getLogger(__name__)


#: Seconds between two beats of the event loop.
BEAT = 5.0


class Probes:
    """Answers at `CRON_PROBE_ADDRESS`, if there is one."""

    _server: "ProbeServer | None" = None

    def __init__(self, container: Container, shutdown: Shutdown) -> None:
        """Take the address. Raises SettingsInvalid: it cannot be had."""
        self._vitals = container.vitals()
        self._vitals.proofs.ends_with(shutdown.requested.is_set)
        settings = container.settings()
        if (address := settings.probes) is None:
            return
        from ..probes import ProbeServer  # noqa: PLC0415 - 20 ms, for which others do not wait

        container.counting()  # it joins the registry
        try:
            self._server = ProbeServer(address, self._vitals, container.registry())
        except OSError as error:
            fault = (
                f"{settings.called('probe_address')}: {address}: {error.strerror}; name another "
                "one, each process of a host needs its own (CRON_PROBE_ADDRESS)"
            )
            raise SettingsInvalid((fault,)) from error

    def start(self) -> None:
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


#: Seconds that each server has for its answer to a report; what runs is reported before.
TIMEOUT: Final = 10.0

#: A sentence, and the context in its brackets.
StateLine = tuple[str, dict[str, Any]]


class StateReport:
    """Writes the state of this process to the log."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._began = time.monotonic()
        self._parts: list[Callable[[], Iterable[StateLine]]] = []

    def add(self, part: Callable[[], Iterable[StateLine]]) -> None:
        self._parts.append(part)

    async def write(self) -> None:
        """Write first what is known here, then which servers answer when they are asked now."""
        up, proofs = time.monotonic() - self._began, self._container.vitals().proofs
        _say(f"Node {self._container.node()}, running for {up:.0f} s")
        for part in self._parts:
            for text, context in part():
                _say(text, **context)
        servers = proofs.up()
        silent = await asyncio.gather(*(_look(proofs, server) for server in servers))
        faults = list(filter(None, silent)) if servers else proofs.faults()
        _say(f"Servers: {'; '.join(faults) or 'all answer'}")


async def _look(proofs: Proofs, server: str) -> str | None:
    try:
        async with asyncio.timeout(TIMEOUT):
            does_serve = await asyncio.to_thread(proofs.look, server)
    except TimeoutError:
        return f"{server} gave no answer within {TIMEOUT:.0f} s"
    except (LedgerUnavailable, BrokerUnavailable) as error:
        return f"{server} is away: {error}"
    return None if does_serve else f"{server} is not proven"


def _say(text: str, **context: Any) -> None:  # noqa: ANN401 - whatever is shown in brackets
    say(log, logging.INFO, "state", text, **context)


#: So many new values may be made before the garbage collector looks for cycles: a busy minute makes
#: ten thousand, and few of ours are in one.
COLLECT_EVERY = 10_000


def announce(container: Container, what: str, *more: str) -> None:
    settings = container.settings()
    logs.sign_as(container.node())
    logs.write_in_batches()
    doorbell = BrokerServer.parse(settings.broker_url)
    parts = (f"ledger {settings.ledger}", f"doorbell {doorbell}", *more)
    text = f"{what} {container.node()}: {'; '.join(parts)}"
    say(log, logging.INFO, "process.start", text)


def preload(container: Container, *, with_page: bool) -> None:
    """Import what this process may need later; *with_page* also what people ask for.

    An upgrade replaces the files below a running process, and what it imported after that would be
    of another release than the rest of it, or gone. The libraries that read calendars alone may
    come later, if a jobs file names its first calendar: they weigh 3 MB.
    """
    works = (*WorkingContainer.cls_providers, "broker_inspection", "ledger_time")
    names = container.providers.keys() - {"registry"} if with_page else works
    preload_parts(getattr(container, name) for name in names)


class Lifetime:
    """What ends a process, what it answers in between, and its report."""

    def __init__(self, container: Container, *, grace: float, with_page: bool = False) -> None:
        """*grace* is that of a shutdown, in seconds; *with_page* it answers people as well."""
        preload(container, with_page=with_page)
        self.shutdown = Shutdown(ForcedExit(grace=grace))
        self.state = StateReport(container)
        self._probes = Probes(container, self.shutdown)
        self._container = container
        self._handlers = SignalHandlers()

    def run(self, process: Coroutine[None, None, None], *, on_hangup: Answer) -> None:
        self._probes.start()
        run_privately(self._answering(process, on_hangup))
        self._probes.close()
        self._container.tracing().close()
        self._container.engine().dispose()
        say(log, logging.INFO, "shutdown.complete", "Shutdown complete")

    async def _answering(self, process: Coroutine[None, None, None], on_hangup: Answer) -> None:
        self.shutdown.listen()
        self._handlers.listen({signal.SIGHUP: on_hangup, signal.SIGUSR1: self.state.write})
        with self._probes.beating():
            await process


def run_privately(process: Coroutine[None, None, None]) -> None:
    """Run what lives long, out of sight of the tasks."""
    be_private()
    tune_gc()
    asyncio.run(process)


def tune_gc() -> None:
    """Have the garbage collector leave alone what was loaded so far, and look seldom at the rest.

    To walk through all of it again and again would take an eighth of a busy minute.
    """
    linecache.clearcache()  # attrs has put the source of each class there: 1.4 MB
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])

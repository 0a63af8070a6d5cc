"""What the life of every process that lives long has: a first line, its signals, a last line."""

import asyncio
import gc
import logging
import signal
from collections.abc import Coroutine

from cronhare.adapters.system.host import be_private
from cronhare.application.logs import say
from cronhare.domain.addresses import BrokerServer

from .. import logs
from ..container import Container
from ..signals.forced_exit import ForcedExit
from ..signals.handlers import Answer, SignalHandlers
from ..signals.shutdown import Shutdown
from .preloading import preload
from .probing import Probes
from .state_report import StateReport

log = logging.getLogger(__name__)

#: So many new values may be made before the garbage collector looks for cycles: a busy minute makes
#: ten thousand, and few of ours are in one.
COLLECT_EVERY = 10_000


def announce(container: Container, what: str, *more: str) -> None:
    """Say what a process is, before it waits for its servers."""
    settings = container.settings()
    logs.sign_as(container.node())
    doorbell = BrokerServer.parse(settings.broker_url)
    parts = (f"ledger {settings.ledger}", f"doorbell {doorbell}", *more)
    text = f"{what} {container.node()}: {'; '.join(parts)}"
    say(log, logging.INFO, "process.start", text)


class Lifetime:
    """What ends a process, what it answers in between, and its report."""

    def __init__(self, container: Container, *, grace: float) -> None:
        """*grace* is that of a shutdown, in seconds."""
        preload(container.settings())
        self.shutdown = Shutdown(ForcedExit(grace=grace))
        self.state = StateReport(container)
        self._probes = Probes(container, self.shutdown)
        self._container = container
        self._handlers = SignalHandlers()

    def run(self, process: Coroutine[None, None, None], *, on_hangup: Answer) -> None:
        """Run a process to its end, and answer its signals: SIGHUP, and SIGUSR1 with its state."""
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
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])

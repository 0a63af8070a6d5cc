"""`cronhare scheduler`."""

from functools import partial

from cronhare.domain.texts.listing import listed

from ...container import Container
from ...processes import lifetime
from ...processes import scheduler as scheduler_process
from ...processes.reloading import Reloading
from ...processes.state_report import StateReport
from ...signals.forced_exit import ForcedExit
from ...signals.handlers import SignalHandlers
from ...signals.shutdown import Shutdown
from ..long_lived import refuse_memory_broker, with_ledger
from ..wiring import read_settings, usable


def scheduler() -> None:
    """Run a scheduler: one of any number, each a full substitute for the others.

    SIGHUP has it read its settings again. SIGUSR1 tells its state in the log.
    """
    handlers = SignalHandlers()
    settings = read_settings()
    refuse_memory_broker(settings)
    container = usable(Container(settings=settings, queues=settings.queues))
    lifetime.announce(container, "Scheduler", f"queues {listed(settings.queues)}")
    shutdown = Shutdown(ForcedExit(grace=scheduler_process.ROUND))
    state = StateReport(container)
    reloading = Reloading(container, forced_exit=shutdown.forced_exit, has_tasks=False)
    process = with_ledger(
        container, shutdown, partial(scheduler_process.run, container, shutdown, state)
    )
    lifetime.run(process, container, shutdown, handlers, on_hangup=reloading.reload, state=state)

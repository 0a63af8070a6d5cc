"""How `cronhare scheduler` starts, once its options are read."""

from functools import partial

from cronhare.domain.texts.listing import listed

from ...container import Container
from ...processes import scheduler as scheduler_process
from ...processes.lifetime import Lifetime, announce
from ...processes.reloading import Reloading
from ..long_lived import refuse_memory_broker, with_ledger
from ..wiring import read_settings, usable


def run_scheduler() -> None:
    """Run a scheduler until it is told to end."""
    settings = read_settings()
    refuse_memory_broker(settings)
    container = usable(Container(settings=settings, queues=settings.queues))
    announce(container, "Scheduler", f"queues {listed(settings.queues)}")
    life = Lifetime(container, grace=scheduler_process.ROUND)
    reloading = Reloading(container, forced_exit=life.shutdown.forced_exit, has_tasks=False)
    run = partial(scheduler_process.run, container, life.shutdown, life.state)
    life.run(with_ledger(container, life.shutdown, run), on_hangup=reloading.reload)

"""How `cronhare scheduler` starts, once its options are read."""

import asyncio
from functools import partial
from pathlib import Path

from cronhare.domain.texts.listing import listed

from ...container import Container
from ...processes import scheduler as scheduler_process
from ...processes.lifetime import Lifetime, announce
from ...processes.reloading import Reloading
from ...processes.standing_in import StandIn
from ..long_lived import refuse_memory_broker, with_ledger
from ..wiring import read_settings, usable


def run_scheduler(jobs: Path | None) -> None:
    """Run a scheduler until it is told to end."""
    settings = read_settings()
    refuse_memory_broker(settings)
    container = usable(Container(settings=settings, queues=settings.queues))
    announce(container, "Scheduler", f"queues {listed(settings.queues)}")
    life = Lifetime(container, grace=scheduler_process.ROUND)
    reloading = Reloading(container, forced_exit=life.shutdown.forced_exit, has_tasks=False)
    stand_in = StandIn(container, jobs)
    stand_in.read()

    async def reload() -> None:
        await reloading.reload()
        await asyncio.to_thread(stand_in.read)

    run = partial(scheduler_process.run, container, life.shutdown, life.state, stand_in=stand_in)
    life.run(with_ledger(container, life.shutdown, run), on_hangup=reload)

"""How `cronhare scheduler` starts, once its options are read."""

import logging
from functools import partial
from pathlib import Path

from cronhare.adapters.jobs.reader import JobsFileInvalid, read_jobs
from cronhare.application.logs import say
from cronhare.domain.events.targets import Subscriptions
from cronhare.domain.texts.words import listed

from ...processes import scheduler as scheduler_process
from ...processes.lifetime import Lifetime, announce
from ...processes.reloading import Reloading
from ...processes.scheduler import StandIn
from ...settings.settings import Settings
from ...working import WorkingContainer
from ..long_lived import refuse_memory_broker, with_ledger
from ..wiring import read_settings, usable

log = logging.getLogger(__name__)


def run_scheduler(jobs: Path | None) -> None:
    """Run a scheduler until it is told to end."""
    settings = read_settings()
    refuse_memory_broker(settings)
    told = targets_for_alerts(jobs, settings)
    container = usable(
        WorkingContainer(settings=settings, subscriptions=told, queues=settings.queues)
    )
    announce(container, "Scheduler", f"queues {listed(settings.queues)}")
    life = Lifetime(container, grace=scheduler_process.ROUND)
    stand_in = StandIn(container)
    reloading = Reloading(
        container,
        forced_exit=life.shutdown.forced_exit,
        jobs=jobs,
        has_tasks=False,
        take=lambda file: stand_in.take(file.subscriptions),
    )
    run = partial(scheduler_process.run, container, life.shutdown, life.state, stand_in=stand_in)
    life.run(with_ledger(container, life.shutdown, run), on_hangup=reloading.reload)


def targets_for_alerts(jobs: Path | None, settings: Settings) -> Subscriptions:
    """Read whom to tell of alerts: a file that cannot be used stops no scheduling (ADR 21)."""
    path = jobs or settings.jobs
    if path is None:
        return Subscriptions()
    try:
        return read_jobs(path, policy=settings.policy).subscriptions
    except (JobsFileInvalid, OSError) as error:
        text = f"{path} cannot be used, so its targets are not told of alerts from here: {error}"
        say(log, logging.WARNING, "notify.lacking", text)
        return Subscriptions()

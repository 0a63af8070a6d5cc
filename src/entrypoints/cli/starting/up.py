"""How `cronhare up` starts, once its options are read."""

import logging
from functools import partial
from pathlib import Path

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.application.logs import say
from cronhare.domain.topology import checked_queues

from ... import logs
from ...processes import embedded
from ...processes.lifetime import Lifetime
from ...processes.reloading import Reloading
from ...settings.bounds import IN_UP
from ...signals import on_a_terminal
from ...web.beside import WebBeside
from ...working import WorkingContainer
from ..errors import Refusal
from ..long_lived import jobs_file, occupy_ledger
from ..wiring import read_settings, usable

log = logging.getLogger(__name__)


def run_up(jobs: Path | None, concurrency: int | None, *, web: bool) -> None:
    """Apply the jobs file, and run all in this process."""
    settings = read_settings()
    file = jobs_file(jobs, settings)
    queues = _queues_of(file)
    container = usable(
        WorkingContainer(
            settings=settings,
            tasks=file.tasks,
            jobs_file=file,
            file_version=file.version,
            subscriptions=file.subscriptions,
            queues=queues,
            weights=settings.served.of(queues),
        )
    )
    logs.sign_as(container.node())
    say(log, logging.INFO, "up", f"Ledger {settings.ledger}")
    occupy_ledger(settings)
    embedded.prepare(container, file)
    at_a_time = concurrency or settings.concurrency or IN_UP
    life = Lifetime(container, grace=settings.shutdown_grace.total_seconds(), with_page=True)
    shutdown = life.shutdown
    reloading = Reloading(
        container,
        forced_exit=shutdown.forced_exit,
        jobs=jobs,
        last=file,
        take=partial(embedded.take, container),
    )
    on_hangup = shutdown.hang_up if on_a_terminal() else reloading.reload
    process = embedded.run(
        container,
        shutdown,
        life.state,
        concurrency=at_a_time,
        read_again=reloading.reload_if_changed,
        on_boot=file.on_boot,
        beside=WebBeside(container, has_begun=partial(_has_begun, container)) if web else None,
    )
    life.run(process, on_hangup=on_hangup)


def _has_begun(container: WorkingContainer) -> bool:
    looked_at, _ = container.dispatcher().outlook
    return looked_at is not None


def _queues_of(file: JobsFile) -> tuple[str, ...]:
    try:
        return checked_queues(embedded.queues_of(file))
    except ValueError as error:
        advice = "Nothing was started. Give some of its schedules a queue in common."
        raise Refusal(f"{file.path}: {error}", advice=advice) from error

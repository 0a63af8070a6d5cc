"""`cronhare up`."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from cronhare.application.logs import say

from .. import embedded, logs
from ..container import Container
from ..settings import Settings, public_url
from .wiring import load

log = logging.getLogger(__name__)


def add_to(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(up)


def up(
    *,
    jobs: Annotated[
        Path | None, typer.Option(help="The jobs file to apply and run. [env: CRON_JOBS]")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="How many tasks run at a time. [env: CRON_CONCURRENCY]"),
    ] = None,
) -> None:
    """Run scheduler and worker in this process, on SQLite and an in-memory broker."""
    settings = Settings.from_environment()
    logs.configure(style=settings.log_format, level=settings.log_level)
    path = jobs or settings.jobs
    file = load(path, settings, state="Nothing was started.") if path else None
    queues = embedded.queues_of(file)
    container = Container(settings=settings, tasks=file.tasks if file else (), queues=queues)
    say(log, logging.INFO, "up", f"Ledger {public_url(settings.database_url)}")
    embedded.prepare(container, file)
    text = "Running; Ctrl-C ends it. From another terminal: cronhare executions list"
    say(log, logging.INFO, "running", text)
    asyncio.run(
        embedded.run(
            container,
            settings,
            queues,
            concurrency=concurrency or settings.concurrency or embedded.CONCURRENCY,
        )
    )
    container.engine().dispose()
    say(log, logging.INFO, "shutdown.complete", "Shutdown complete")

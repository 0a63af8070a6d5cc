"""`cronhare up | scheduler | worker | web`: what such a process imports, its help does without."""

# ruff: noqa: PLC0415 - as said above

from typing import Annotated

import typer

from ...settings import MOST_AT_A_TIME
from ..wiring import App, Jobs

Concurrency = Annotated[
    int | None,
    typer.Option(
        min=1, max=MOST_AT_A_TIME, help="How many tasks run at a time. [env: CRON_CONCURRENCY]"
    ),
]


def up(
    *,
    jobs: Jobs = None,
    app: App = None,
    concurrency: Concurrency = None,
    web: Annotated[
        bool, typer.Option("--web/--no-web", help="Open API and page at CRON_WEB_ADDRESS.")
    ] = True,
    reload: Annotated[
        bool,
        typer.Option(
            "--reload",
            help="Read it again when a .py file below this folder changes: for development.",
        ),
    ] = False,
) -> None:
    """Apply a jobs file, an app or both, and run scheduler, worker, API and page in this process.

    Without a terminal, SIGHUP has it read them again. SIGUSR1 tells its state in the log.
    """
    from ...given import Named
    from ..starting import run_up

    run_up(Named(jobs, app), concurrency, web=web, watches=reload)


def scheduler(*, jobs: Jobs = None, app: App = None) -> None:
    """Run a scheduler: one of any number, each a full substitute for the others.

    It runs no task of jobs file or app: their targets are told of alerts where no worker tells
    them.

    SIGHUP has it read all of it again. SIGUSR1 tells its state in the log.
    """
    from ...given import Named
    from ..starting import run_scheduler

    run_scheduler(Named(jobs, app))


def worker(
    *,
    jobs: Jobs = None,
    app: App = None,
    concurrency: Concurrency = None,
    queues: Annotated[
        str | None,
        typer.Option(
            help="Which queues, with commas between; reports:3 has a weight. [env: CRON_QUEUES]"
        ),
    ] = None,
    standalone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only this schedule, whose row has stay_alive; it is kept running."
        ),
    ] = None,
) -> None:
    """Run a worker: one of any number. Its tasks come from its own jobs file, its app, or both.

    SIGHUP has it read jobs file, app and settings again. SIGUSR1 tells its state in the log.
    """
    from ...given import Named
    from ..starting import run_worker

    run_worker(Named(jobs, app), concurrency, queues=queues, standalone=standalone)


def web(*, jobs: Jobs = None, app: App = None) -> None:
    """Show the page at CRON_WEB_ADDRESS, and answer for the API, probes and metrics there.

    Tasks are those of its jobs file and its app. SIGHUP has it read these and the settings again.
    SIGUSR1 tells its state in the log.
    """
    from ...given import Named
    from ..starting import run_web

    run_web(Named(jobs, app))

"""`cronhare up | scheduler | worker | web`: what such a process imports, its help does without."""

# ruff: noqa: PLC0415 - as said above

from typing import Annotated

import typer

from ...settings.bounds import MOST_AT_A_TIME
from ..jobs_files import Jobs

Concurrency = Annotated[
    int | None,
    typer.Option(
        min=1, max=MOST_AT_A_TIME, help="How many tasks run at a time. [env: CRON_CONCURRENCY]"
    ),
]


def up(
    *,
    jobs: Jobs = None,
    concurrency: Concurrency = None,
    web: Annotated[
        bool, typer.Option("--web/--no-web", help="Open API and page at CRON_WEB_ADDRESS.")
    ] = True,
) -> None:
    """Apply a jobs file, and run scheduler, worker, API and page in this process.

    Without a terminal, SIGHUP has it read its jobs file again. SIGUSR1 tells its state in the log.
    """
    from ..starting import run_up

    run_up(jobs, concurrency, web=web)


def scheduler(*, jobs: Jobs = None) -> None:
    """Run a scheduler: one of any number, each a full substitute for the others.

    It runs no task of the jobs file: its targets are told of alerts where no worker tells them.

    SIGHUP has it read both again. SIGUSR1 tells its state in the log.
    """
    from ..starting import run_scheduler

    run_scheduler(jobs)


def worker(
    *,
    jobs: Jobs = None,
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
    """Run a worker: one of any number. Its tasks come from its own jobs file.

    SIGHUP has it read jobs file and settings again. SIGUSR1 tells its state in the log.
    """
    from ..starting import run_worker

    run_worker(jobs, concurrency, queues=queues, standalone=standalone)


def web(*, jobs: Jobs = None) -> None:
    """Show the page at CRON_WEB_ADDRESS, and answer for the API, probes and metrics there.

    Tasks are those of its jobs file. SIGHUP has it read that and the settings again. SIGUSR1 tells
    its state in the log.
    """
    from ..starting import run_web

    run_web(jobs)

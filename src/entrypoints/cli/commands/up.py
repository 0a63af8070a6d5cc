"""`cronhare up`."""

from typing import Annotated

import typer

from ..jobs_files import Jobs
from ..process_options import Concurrency


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
    from ..starting.up import run_up  # noqa: PLC0415 - all that a process needs in its life

    run_up(jobs, concurrency, web=web)

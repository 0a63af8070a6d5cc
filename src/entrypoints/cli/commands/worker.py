"""`cronhare worker`."""

from typing import Annotated

import typer

from ..jobs_files import Jobs
from ..process_options import Concurrency


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
    from ..starting.worker import run_worker  # noqa: PLC0415 - all that a process needs in its life

    run_worker(jobs, concurrency, queues=queues, standalone=standalone)

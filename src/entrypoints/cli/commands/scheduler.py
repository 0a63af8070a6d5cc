"""`cronhare scheduler`."""

from ..jobs_files import Jobs


def scheduler(*, jobs: Jobs = None) -> None:
    """Run a scheduler: one of any number, each a full substitute for the others.

    It runs no task of the jobs file: its targets are told of alerts where no worker tells them.

    SIGHUP has it read both again. SIGUSR1 tells its state in the log.
    """
    from ..starting.scheduler import run_scheduler  # noqa: PLC0415 - all that a process needs

    run_scheduler(jobs)

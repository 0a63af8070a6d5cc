"""`cronhare web`."""

from ..jobs_files import Jobs


def web(*, jobs: Jobs = None) -> None:
    """Show the page at CRON_WEB_ADDRESS, and answer for the API, probes and metrics there.

    Tasks are those of its jobs file. SIGHUP has it read that and the settings again. SIGUSR1 tells
    its state in the log.
    """
    from ..starting.web import run_web  # noqa: PLC0415 - all that a process needs in its life

    run_web(jobs)

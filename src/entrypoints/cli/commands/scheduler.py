"""`cronhare scheduler`."""


def scheduler() -> None:
    """Run a scheduler: one of any number, each a full substitute for the others.

    SIGHUP has it read its settings again. SIGUSR1 tells its state in the log.
    """
    from ..starting.scheduler import run_scheduler  # noqa: PLC0415 - all that a process needs

    run_scheduler()

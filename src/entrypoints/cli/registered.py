"""The tasks of the jobs file that the settings name: for commands that run none of them."""

# ruff: noqa: PLC0415 - a list that is asked for no task needs no reader of jobs files

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronhare.domain.schedules.task import Task

    from ..settings.settings import Settings


class RegisteredTasks:
    """They are read when somebody looks through them: who asks for a task by its name."""

    def __init__(self, settings: "Settings") -> None:
        """*settings* may name a file, or none."""
        self._settings = settings

    def __iter__(self) -> "Iterator[Task]":
        """Give them; none where the file cannot be read, of which `check` and `doctor` tell."""
        if self._settings.jobs is None:
            return iter(())
        from cronhare.adapters.jobs.reader import JobsFileInvalid, read_jobs

        try:
            return iter(read_jobs(self._settings.jobs, policy=self._settings.policy).tasks)
        except (JobsFileInvalid, OSError):
            return iter(())

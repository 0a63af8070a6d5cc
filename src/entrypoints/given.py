"""What a command or a process is given: a jobs file, an app, or both, each a source by itself.

Their readers are imported where they are used: most commands read none.
"""

# ruff: noqa: PLC0415 - as said above

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

from cronhare.domain.progress import OnProgress, unwatched

if TYPE_CHECKING:
    from cronhare.adapters.jobs.reader import JobsFile
    from cronhare.domain.retries.policy import RetryPolicy
    from cronhare.domain.schedules.task import Task

    from .settings.settings import Settings

#: A jobs file, or an app: `MODULE:APP`.
Place: TypeAlias = Path | str


@attrs.frozen
class Named:
    """What the options of a command name: then the settings name nothing."""

    jobs: Path | None = None
    app: str | None = None

    def places(self, settings: "Settings | None" = None) -> tuple[Place, ...]:
        named = self if settings is None or self.jobs or self.app else settings
        app = () if named.app is None else (named.app,)
        return app if named.jobs is None else (named.jobs, *app)


def as_argument(place: Place, option: str = "") -> str:
    """Write it as `check`, `plan` and `apply` take it; others take a file by an *option*."""
    if isinstance(place, str):
        return f"--app {place}"
    return f"{option} {shlex.quote(str(place))}".lstrip()


def read(place: Place, *, policy: "RetryPolicy", on_progress: OnProgress = unwatched) -> "JobsFile":
    """Read a jobs file, or an app.

    Raises:
        JobsFileInvalid: with every fault at once.
        OSError: the file cannot be read.
    """
    if isinstance(place, str):
        from cronhare.adapters.jobs.apps import read_app
        from cronhare.adapters.process.environment import app_environment

        return read_app(
            place, policy=policy, environment=app_environment(os.environ), on_progress=on_progress
        )
    from cronhare.adapters.jobs.reader import read_jobs

    return read_jobs(place, policy=policy, on_progress=on_progress)


def tasks_of(files: "Sequence[JobsFile]") -> "tuple[Task, ...]":
    return tuple(task for file in files for task in file.tasks)

"""Reading jobs file and settings again while a process runs: SIGHUP.

A faulty file changes nothing. What can change while running, changes; of the rest it is said that
it needs a restart.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from dependency_injector import providers

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs
from cronhare.application.logs import say
from cronhare.domain.task import Task
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

from . import logs
from .container import Container
from .last_resort import LastResort
from .settings import Settings, SettingsInvalid
from .settings_sources import PREFIX

log = logging.getLogger(__name__)

#: The settings, by their fields, that take effect while a process runs.
LIVE: Final = frozenset({"log_level", "log_format", "shutdown_grace", "jobs"})

#: So many tasks are named of those that are new, changed or gone.
MOST_NAMED: Final = 10


class Reloading:
    """Does what SIGHUP asks for."""

    def __init__(
        self,
        container: Container,
        *,
        resort: LastResort,
        jobs: Path | None = None,
        has_tasks: bool = True,
        take: Callable[[JobsFile], None] = lambda _: None,
    ) -> None:
        """*jobs* goes before the setting. *take* does what else a file asks for, in a thread.

        Without *has_tasks* there is no jobs file to read, as in a scheduler.
        """
        self._container = container
        self._resort = resort
        self._jobs = jobs
        self._has_tasks = has_tasks
        self._take = take
        self._tasks: tuple[Task, ...] = container.tasks()

    async def reload(self) -> None:
        """Read all of it; then take it, or say what is wrong with it."""
        try:
            settings, file = await asyncio.to_thread(self._read)
            if file is not None:
                await asyncio.to_thread(self._take, file)
        except SettingsInvalid as error:
            self._refuse(error.faults)
        except JobsFileInvalid as error:
            self._refuse([f"{error.path}: {fault}" for fault in error.faults])
        except OSError as error:
            self._refuse([f"{error.filename}: {error.strerror or error}"])
        except (LedgerUnavailable, LedgerRefused) as error:
            self._refuse([str(error)])
        else:
            self._take_settings(settings)
            self._take_tasks(file)

    def _read(self) -> tuple[Settings, JobsFile | None]:
        settings = Settings.read()
        path = self._jobs or settings.jobs
        if path is None or not self._has_tasks:
            return settings, None
        return settings, read_jobs(path, policy=self._container.settings().policy)

    def _refuse(self, faults: Sequence[str]) -> None:
        text = f"Nothing was reloaded, all goes on as before; faults: {len(faults)}"
        say(log, logging.ERROR, "reload.refused", text, stack="\n".join(faults))

    def _take_settings(self, told: Settings) -> None:
        current = self._container.settings()
        changed = {
            field: f"{PREFIX}{name.upper()}"
            for name, (field, _) in Settings.declared().items()
            if getattr(told, field) != getattr(current, field)
        }
        live = {field: getattr(told, field) for field in changed.keys() & LIVE}
        self._container.settings.override(providers.Object(attrs.evolve(current, **live)))
        if live.keys() & {"log_level", "log_format"}:
            logs.configure(style=told.log_format, level=told.log_level)
            logs.sign_as(self._container.node())
        if "shutdown_grace" in live and self._has_tasks:
            self._resort.allow(told.shutdown_grace.total_seconds())
        _tell(changed, live.keys())

    def _take_tasks(self, file: JobsFile | None) -> None:
        if file is None:
            return
        before = {task.name: task for task in self._tasks}
        after = {task.name: task for task in file.tasks}
        self._container.catalog().replace(file.tasks)
        self._tasks = file.tasks
        text = f"Reloaded {file.path}: {'; '.join(_difference(before, after)) or 'the same tasks'}"
        say(log, logging.INFO, "reload", text)


def _tell(changed: Mapping[str, str], live: Collection[str]) -> None:
    """Name settings, never show them: they may hold passwords."""
    now = sorted(changed[field] for field in live)
    later = sorted(name for field, name in changed.items() if field not in live)
    say(log, logging.INFO, "reload", f"Settings that changed: {', '.join(now) or 'none'}")
    if later:
        text = f"These changed as well, and take effect at the next start: {', '.join(later)}"
        say(log, logging.WARNING, "reload.restart", text)


def _difference(before: Mapping[str, Task], after: Mapping[str, Task]) -> Iterator[str]:
    kinds = {
        "new": sorted(after.keys() - before.keys()),
        "changed": sorted(n for n in after.keys() & before.keys() if after[n] != before[n]),
        "gone": sorted(before.keys() - after.keys()),
    }
    for kind, names in kinds.items():
        if names:
            more = f" and {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
            yield f"{kind}: {', '.join(names[:MOST_NAMED])}{more}"

"""Reading jobs file and settings again while a process runs: SIGHUP.

A faulty file changes nothing. Settings that cannot change while running are logged as waiting for a
restart. A ledger that does not answer may have the schedules all the same: it is asked until it
answers.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs, stamp_of
from cronhare.application.logs import say
from cronhare.application.worker.ledger import FIRST_PAUSE, LONGEST_PAUSE
from cronhare.domain.events.targets import ByApprise, ByWebhook, Subscriptions, untellable
from cronhare.domain.retries.policy import Waits
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.words import listed
from cronhare.ports import LedgerRefused, LedgerUnavailable

from .. import logs
from ..container import Container
from ..injection import providers
from ..settings.settings import Settings, SettingsInvalid
from ..settings.sources import PREFIX
from ..signals import ForcedExit

log = logging.getLogger(__name__)

_Take = Callable[[JobsFile], None]

#: The settings, by their fields, that take effect while a process runs.
LIVE: Final = frozenset({"log_level", "log_format", "shutdown_grace", "jobs"})

#: Seconds for which no run that lacks its task has a refused file read again.
REFUSED_FOR = 5.0

_LOST: Final = (
    "has no {} at all, and the one before had some. Was it being written? Then ask again; "
    "if it is meant, end this process; what has tasks may be started again"
)


class Reloading:
    """Does what SIGHUP asks for."""

    def __init__(
        self,
        container: Container,
        *,
        forced_exit: ForcedExit,
        jobs: Path | None = None,
        has_tasks: bool = True,
        last: JobsFile | None = None,
        take: _Take = lambda _: None,
        renew: Callable[[], None] = lambda: None,
    ) -> None:
        """*jobs* goes before the setting. Without *has_tasks* a file is read for its targets alone.

        *last* is the file that the process has. *take* does what else a file asks for, all or
        nothing; it is called in a thread, and again where the ledger does not answer. *renew* has
        later runs use the code of apps that is there by then.
        """
        self._container = container
        self._forced_exit = forced_exit
        self._jobs = jobs
        self._has_tasks = has_tasks
        self._has_schedules = last is not None and bool(last.drafts)
        self._take = take
        self._renew = renew
        self._turn = asyncio.Lock()
        self._taken = None if last is None else last.stamp
        self._refused_until = 0.0

    async def reload(self) -> None:
        """Read jobs file and settings; then take both, or log every fault."""
        async with self._turn:
            await self._reload(Settings.read, self._take)

    async def reload_if_changed(self) -> None:
        """Take tasks and targets of a jobs file that has changed since it was taken.

        A run lacks its task: somebody has applied the file already, and told nobody.
        """
        async with self._turn:
            path = self._jobs or self._container.settings().jobs
            if path is None or self._container.clock().monotonic() < self._refused_until:
                return
            if await asyncio.to_thread(stamp_of, path) != self._taken:
                await self._reload(self._container.settings, take=lambda _: None)

    async def _reload(self, read_settings: Callable[[], Settings], take: _Take) -> None:
        try:
            settings, file = await asyncio.to_thread(self._read, read_settings)
            if file and (lost := self._lost(file)):
                self._refuse([f"{file.path}: {_LOST.format(lost)}"])
                return
            changes = await self._take_file(file, take) if file else None
        except SettingsInvalid as error:
            self._refuse(error.faults)
        except JobsFileInvalid as error:
            self._refuse([f"{error.path}: {fault}" for fault in error.faults])
        except OSError as error:
            self._refuse([f"{error.filename}: {error.strerror or error}"])
        except LedgerRefused as error:
            self._refuse([str(error)])
        else:
            self._take_settings(settings)
            if changes is not None:
                say(log, logging.INFO, "reload", changes)

    def _lost(self, file: JobsFile) -> str | None:
        """Name what a file has none of any more: an editor may have emptied, or half written it.

        Runs would fail for want of their task, schedules be disabled, or nobody be told of alerts.
        """
        if not file.tasks and any(self._container.catalog()):
            return "task"
        told = self._container.subscribers().current.targets
        if not self._has_tasks and told and not file.subscriptions.targets:
            return "target"
        return "schedule" if self._has_schedules and not file.drafts else None

    def _read(self, read_settings: Callable[[], Settings]) -> tuple[Settings, JobsFile | None]:
        settings = read_settings()
        path = self._jobs or settings.jobs
        if path is None:
            return settings, None
        return settings, read_jobs(path, policy=self._container.settings().policy)

    def _refuse(self, faults: Sequence[str]) -> None:
        self._refused_until = self._container.clock().monotonic() + REFUSED_FOR
        text = f"Nothing was reloaded, all goes on as before; faults: {len(faults)}"
        say(log, logging.ERROR, "reload.refused", text, stack="\n".join(faults))

    def _take_settings(self, read: Settings) -> None:
        current = self._container.settings()
        changed = {
            field: f"{PREFIX}{name.upper()}"
            for name, (field, _) in Settings.declared().items()
            if getattr(read, field) != getattr(current, field)
        }
        live = {field: getattr(read, field) for field in changed.keys() & LIVE}
        _replace(self._container.settings, attrs.evolve(current, **live))
        if live.keys() & {"log_level", "log_format"}:
            logs.configure(style=read.log_format, level=read.log_level)
            logs.sign_as(self._container.node())
        if "shutdown_grace" in live and self._has_tasks:
            self._forced_exit.allow(read.shutdown_grace.total_seconds())
        # They are named without their values, which may hold passwords.
        now = sorted(changed[field] for field in live)
        later = sorted(name for field, name in changed.items() if field not in live)
        say(log, logging.INFO, "reload", f"Settings that changed: {', '.join(now) or 'none'}")
        if later:
            text = f"Settings that changed and take effect at the next start: {', '.join(later)}"
            say(log, logging.WARNING, "reload.restart", text)

    async def _take_file(self, file: JobsFile, take: _Take) -> str:
        """Take what this process needs of the file, all or nothing, and describe the changes."""
        if self._has_tasks:
            changes = await self._take_tasks(file, take)
            warn_of_untellable(file.subscriptions, self._container.settings())
        else:
            await _take_until_answered(file, take)
            changes = f"targets: {listed(sorted(file.subscriptions.targets)) or 'none'}"
        self._taken = file.stamp
        self._container.subscribers().current = file.subscriptions
        if self._container.file_version() is not None:
            _replace(self._container.file_version, file.version)
        if self._container.jobs_file() is not None:  # a process without a page keeps none of it
            _replace(self._container.jobs_file, file)
        return f"Reloaded {file.path}: {changes}"

    async def _take_tasks(self, file: JobsFile, take: _Take) -> str:
        catalog = self._container.catalog()
        before = {task.name: task for task in catalog}
        after = {task.name: task for task in file.tasks}
        with catalog.replacing(file.tasks):
            await _take_until_answered(file, take)
        self._renew()
        self._has_schedules = bool(file.drafts)
        return "; ".join(_difference(before, after)) or "the same tasks"


async def _take_until_answered(file: JobsFile, take: _Take) -> None:
    """Ask until there is an answer: what was done and not heard is then found done."""
    pauses, is_logged = Waits(FIRST_PAUSE, LONGEST_PAUSE), False
    while True:
        try:
            return await asyncio.to_thread(take, file)
        except LedgerUnavailable as error:
            if not is_logged:
                text = (
                    f"It is not known whether the schedules are those of {file.path} by now: "
                    f"{error}. Tasks from before and new ones are both at hand, and the ledger is "
                    "asked again until it answers"
                )
                say(log, logging.WARNING, "reload.unknown", text)
                is_logged = True
            await asyncio.sleep(pauses.next())


def _replace(given: providers.Provider[Any], value: object) -> None:
    """Give another value in place of the one that the container was made with.

    To override it once more would keep the one before, a whole jobs file at each hangup.
    """
    last = given.last_overriding
    assert isinstance(last, providers.Object), last
    last.set_provides(value)


def _difference(before: Mapping[str, Task], after: Mapping[str, Task]) -> Iterator[str]:
    kinds = {
        "new": sorted(after.keys() - before.keys()),
        "changed": sorted(n for n in after.keys() & before.keys() if after[n] != before[n]),
        "gone": sorted(before.keys() - after.keys()),
    }
    for kind, names in kinds.items():
        if names:
            yield f"{kind}: {listed(names)}"


def warn_of_untellable(subscriptions: Subscriptions, settings: Settings) -> Collection[str]:
    """Log them: an error where a secret is wanting, a warning where mail was never set up.

    Returns their names.
    """
    lacking = untellable(subscriptions, has_mail=settings.mail_server is not None)
    for name, why in lacking.items():
        needs_secret = isinstance(subscriptions.targets[name].means, ByWebhook | ByApprise)
        level = logging.ERROR if needs_secret else logging.WARNING
        text = f"notify.{name} cannot be told by this process: {why}. The rest goes on"
        say(log, level, "notify.lacking", text)
    return lacking.keys()

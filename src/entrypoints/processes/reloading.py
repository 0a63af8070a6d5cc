"""Reading jobs file, app and settings again while a process runs: SIGHUP.

What is faulty changes nothing. Settings that cannot change while running are logged as waiting for
a restart. A ledger that does not answer may have the schedules all the same: it is asked until it
answers.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

import attrs

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, stamp_of
from cronhare.application.administration.jobs_file.difference import clashes_among
from cronhare.application.logs import say
from cronhare.application.worker.ledger import FIRST_PAUSE, LONGEST_PAUSE
from cronhare.domain.events.targets import ByApprise, ByWebhook, Subscriptions, untellable
from cronhare.domain.retries.policy import Waits
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.words import listed
from cronhare.ports import LedgerRefused, LedgerUnavailable

from .. import logs
from ..container import Container, providers
from ..given import Named, read, tasks_of
from ..settings.settings import Settings, SettingsInvalid
from ..settings.sources import PREFIX
from ..signals import ForcedExit

log = logging.getLogger(__name__)

_Take = Callable[[Sequence[JobsFile]], None]

#: The settings, by their fields, that take effect while a process runs.
LIVE: Final = frozenset({"log_level", "log_format", "shutdown_grace", "jobs", "app"})

#: Seconds between two looks at code that is being written.
WATCH_EVERY: Final = 1.0

#: What a folder with the libraries of an environment has.
_VENV: Final = "pyvenv.cfg"

#: Seconds for which no run that lacks its task has a refused file read again.
REFUSED_FOR = 5.0

_LOST: Final = (
    "has no {} at all, and the one before had some. Was it being written? Then ask again; "
    "if it is meant, end this process; what has tasks may be started again"
)


_OTHERS: Final = "CRON_JOBS, CRON_APP: whether there are both is decided at the start: restart it"


class Reloading:
    """Does what SIGHUP asks for."""

    def __init__(
        self,
        container: Container,
        *,
        forced_exit: ForcedExit,
        named: Named = Named(),  # noqa: B008 - a frozen value
        has_tasks: bool = True,
        last: Sequence[JobsFile | None],
        take: _Take = lambda _: None,
        renew: Callable[[], None] = lambda: None,
    ) -> None:
        """*named* goes before the settings. Without *has_tasks* only targets are read.

        *last* is what the process has, None for what could not be read. *take* does what else it
        asks for, all or nothing; it is called in a thread, and again where the ledger does not
        answer. *renew* has later runs use the code of apps that is there by then.
        """
        self._container = container
        self._forced_exit = forced_exit
        self._named = named
        self._has_tasks = has_tasks
        self._take = take
        self._renew = renew
        self._turn = asyncio.Lock()
        self._had = [self._parts(file) for file in last]
        self._taken = [(file.files, file.stamp) for file in last if file is not None]
        self._refused_until = 0.0

    async def reload(self) -> None:
        async with self._turn:
            await self._reload(Settings.read, self._take)

    async def reload_if_changed(self) -> None:
        """Take tasks and targets of a file, or an app, that has changed since it was taken.

        A run lacks its task: somebody has applied the file already, and told nobody.
        """
        async with self._turn:
            if self._container.clock().monotonic() < self._refused_until:
                return
            changed = (stamp_of(*files) != stamp for files, stamp in self._taken)
            if await asyncio.to_thread(any, changed):
                await self._reload(self._container.settings, take=lambda _: None)

    async def watch(self) -> NoReturn:
        before = await asyncio.to_thread(code_below, Path.cwd())
        while True:
            await asyncio.sleep(WATCH_EVERY)
            after = await asyncio.to_thread(code_below, Path.cwd())
            if changed := sorted({path for path, _ in before.items() ^ after.items()}):
                before = after
                say(log, logging.INFO, "reload.watch", f"Code has changed: {listed(changed)}")
                await self.reload()

    async def _reload(self, read_settings: Callable[[], Settings], take: _Take) -> None:
        try:
            settings, files = await asyncio.to_thread(self._read, read_settings)
            changes = await self._take_files(files, take) if files else None
        except SettingsInvalid as error:
            self._refuse(error.faults)
        except JobsFileInvalid as error:
            self._refuse([f"{error.path}: {fault}" for fault in error.faults])
        except LedgerRefused as error:
            self._refuse([str(error)])
        else:
            self._take_settings(settings)
            if changes is not None:
                say(log, logging.INFO, "reload", changes)

    def _parts(self, file: JobsFile | None) -> Sequence[str]:
        """Name what a file has of that of which it must not lose all.

        An editor may have emptied, or half written it: runs would fail for want of their task,
        schedules be disabled, or nobody be told of alerts.
        """
        if file is None:
            return ()
        needed = {"task": bool(file.tasks), "schedule": bool(file.drafts)}
        if not self._has_tasks:
            needed = {"target": bool(file.subscriptions.targets)}
        return [part for part, there in needed.items() if there]

    def _read(self, read_settings: Callable[[], Settings]) -> tuple[Settings, Sequence[JobsFile]]:
        """Read all of it.

        Raises:
            SettingsInvalid: with every fault at once, of the files as well.
        """
        settings, files, faults = read_settings(), list[JobsFile](), list[str]()
        places = self._named.places(settings)
        if not places:
            return settings, ()
        if len(places) != max(1, len(self._had)):
            raise SettingsInvalid((_OTHERS,))
        for place in places:
            try:
                files.append(read(place, policy=self._container.settings().policy))
            except JobsFileInvalid as error:
                faults += [f"{error.path}: {fault}" for fault in error.faults]
            except OSError as error:
                faults.append(f"{error.filename}: {error.strerror or error}")
        faults = faults or [*map(str, clashes_among(files)), *self._losses(files)]
        if faults:
            raise SettingsInvalid(tuple(faults))
        return settings, files

    def _losses(self, files: Sequence[JobsFile]) -> Iterator[str]:
        for file, had in zip(files, self._had, strict=False):
            if lost := [part for part in had if part not in self._parts(file)]:
                yield f"{file.path}: {_LOST.format(lost[0])}"

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

    async def _take_files(self, files: Sequence[JobsFile], take: _Take) -> str:
        container = self._container
        if self._has_tasks:
            changes = await self._take_tasks(files, take)
            for file in files:
                warn_of_untellable(file.subscriptions, container.settings())
        else:
            await _take_until_answered(files, take)
            names = sorted(name for file in files for name in file.subscriptions.targets)
            changes = f"targets: {listed(names) or 'none'}"
        self._had = [self._parts(file) for file in files]
        self._taken = [(file.files, file.stamp) for file in files]
        subscribers = container.subscribers(), container.more_subscribers()
        for each, file in zip(subscribers, files, strict=False):
            each.current = file.subscriptions
        if container.file_versions():
            _replace(container.file_versions, [file.version for file in files])
        if container.jobs_files():  # a process without a page keeps none of it
            _replace(container.jobs_files, files)
        return f"Reloaded {_places(files)}: {changes}"

    async def _take_tasks(self, files: Sequence[JobsFile], take: _Take) -> str:
        catalog, tasks = self._container.catalog(), tasks_of(files)
        before = {(task.name, task.source): task for task in catalog}
        after = {(task.name, task.source): task for task in tasks}
        with catalog.replacing(tasks):
            await _take_until_answered(files, take)
        self._renew()
        return "; ".join(_difference(before, after)) or "the same tasks"


def _places(files: Sequence[JobsFile]) -> str:
    return " and ".join(str(file.path) for file in files)


async def _take_until_answered(files: Sequence[JobsFile], take: _Take) -> None:
    """Ask until there is an answer: what was done and not heard is then found done."""
    pauses, is_logged = Waits(FIRST_PAUSE, LONGEST_PAUSE), False
    while True:
        try:
            return await asyncio.to_thread(take, files)
        except LedgerUnavailable as error:
            if not is_logged:
                text = (
                    f"It is not known whether the schedules are those of {_places(files)} by now: "
                    f"{error}. Tasks from before and new ones are both at hand, and the ledger is "
                    "asked again until it answers"
                )
                say(log, logging.WARNING, "reload.unknown", text)
                is_logged = True
            await asyncio.sleep(pauses.next())


def code_below(folder: Path) -> Mapping[str, int]:
    """Give the modules below a folder with the times of their last changes.

    What is hidden, and environments with libraries, are left out.
    """
    found = dict[str, int]()
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = [n for n in folders if n[:1] != "." and not (here / n / _VENV).exists()]
        for path in (here / name for name in files if name.endswith(".py")):
            with suppress(OSError):  # it is gone meanwhile
                found[str(path.relative_to(folder))] = path.stat().st_mtime_ns
    return found


def _replace(given: providers.Provider[Any], value: object) -> None:
    """Give another value in place of the one that the container was made with.

    To override it once more would keep the one before, a whole jobs file at each hangup.
    """
    last = given.last_overriding
    assert isinstance(last, providers.Object), last
    last.set_provides(value)


_Tasks = Mapping[tuple[str, str | None], Task]


def _difference(before: _Tasks, after: _Tasks) -> Iterator[str]:
    kinds = {
        "new": sorted(after.keys() - before.keys()),
        "changed": sorted(n for n in after.keys() & before.keys() if after[n] != before[n]),
        "gone": sorted(before.keys() - after.keys()),
    }
    for kind, names in kinds.items():
        if names:
            yield f"{kind}: {listed([name for name, _ in names])}"


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

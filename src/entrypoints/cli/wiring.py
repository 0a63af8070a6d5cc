"""What most commands begin with: settings, and a container on the ledger.

All of it is imported where it is used: a page of help and a completion need nothing of it, and what
asks no ledger needs no adapter. Settings that cannot be used are raised as `SettingsInvalid`, a
ledger that is away or needs `cronhare db upgrade` as `LedgerUnavailable`.
"""

# ruff: noqa: PLC0415 - as said above

import atexit
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from cronhare.domain.schedules.task import Task

    from ..container import Container
    from ..settings.settings import Settings

log = logging.getLogger(__name__)

C = TypeVar("C", bound="Container")


def open_ledger() -> "Container":
    from cronhare.adapters.sql.migrations.upgrade import check_schema

    container = wire()  # first: settings that cannot be used need no ledger to say so
    check_schema(container.engine())
    return container


def wire() -> "Container":
    return wire_with(read_settings())


def wire_with(settings: "Settings") -> "Container":
    from ..container import Container

    container = usable(Container(settings=settings, registered=RegisteredTasks(settings)))
    close_at_exit(container)
    return container


def close_at_exit(container: "Container") -> None:
    """Close the ledger when the command has ended: SQLite removes what it keeps beside the file."""
    atexit.register(container.engine().dispose)


def read_settings() -> "Settings":
    from cronhare.application.logs import say

    from .. import logs
    from ..settings.settings import Settings

    settings = Settings.read()
    logs.configure(style=settings.log_format, level=settings.log_level)
    for unknown in settings.sources.say_unknown():
        say(log, logging.WARNING, "settings.unknown", f"{unknown}: `cronhare settings` has all")
    return settings


def usable(container: C) -> C:
    from ..settings.settings import SettingsInvalid

    if faults := tuple(faults_of(container)):
        raise SettingsInvalid(faults)
    return container


def faults_of(container: "Container") -> Iterator[str]:
    from cronhare.adapters.extras import require

    from ..container import check_broker

    settings = container.settings()
    needed: dict[str, Callable[[], object]] = {"database_url": container.engine}
    if settings.broker_kind == "amqp":
        needed["broker_url"] = partial(check_broker, settings.broker_url)
    if settings.tracing:
        needed["tracing"] = partial(require, "tracing")
    for name, have in needed.items():
        try:
            have()
        except ValueError as error:
            yield f"{settings.called(name)}: {error}"


def said_ledger(settings: "Settings") -> str:
    """Name the ledger without its password: people may have several.

    A relative path is another file in each folder: it is shown in full.
    """
    from cronhare.adapters.addresses import LedgerFile

    ledger = settings.ledger
    if isinstance(ledger, LedgerFile) and not Path(ledger.path).is_absolute():
        return f"{ledger} ({Path(ledger.path).absolute()})"
    return str(ledger)


class RegisteredTasks:
    """The tasks of jobs file and app that the settings name: for commands that run none of them.

    They are read when somebody looks through them: who asks for a task by its name.
    """

    def __init__(self, settings: "Settings") -> None:
        self._settings = settings

    def __iter__(self) -> "Iterator[Task]":
        """Give them; none of what cannot be read, of which `check` and `doctor` tell."""
        from cronhare.adapters.jobs.reader import JobsFileInvalid

        from ..given import Named, read

        for place in Named().places(self._settings):
            with suppress(JobsFileInvalid, OSError):
                yield from read(place, policy=self._settings.policy).tasks

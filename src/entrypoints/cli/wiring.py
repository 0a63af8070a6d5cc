"""What most commands begin with: settings, a container on the ledger, a jobs file."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs
from cronhare.adapters.sql import check_schema
from cronhare.adapters.sql.dialects.sqlite.file import located
from cronhare.application.logs import say
from cronhare.domain.addresses import LedgerFile

from .. import logs, rabbitmq
from ..container import Container
from ..settings.settings import Settings, SettingsInvalid
from .errors import file_refusal, jobs_refusal

log = logging.getLogger(__name__)

JobsArgument = Annotated[
    Path, typer.Argument(help="The jobs file.", metavar="JOBS.TOML", show_default=False)
]
JobsArguments = Annotated[
    list[Path], typer.Argument(help="The jobs files.", metavar="JOBS.TOML…", show_default=False)
]


def open_ledger() -> Container:
    """Wire the container on a ledger whose schema fits.

    Raises:
        LedgerUnavailable: it is away, or needs `cronhare db upgrade`.
    """
    container = wire()
    check_schema(container.engine())
    return container


def wire() -> Container:
    """Read the settings, begin to log, and wire the container.

    Raises:
        SettingsInvalid: with every fault at once.
    """
    return usable(Container(settings=read_settings()))


def read_settings() -> Settings:
    """Read the settings, begin to log, and warn of variables that are none.

    Raises:
        SettingsInvalid: with every fault at once.
    """
    settings = Settings.read()
    logs.configure(style=settings.log_format, level=settings.log_level)
    for unknown in settings.sources.unknown:
        say(log, logging.WARNING, "settings.unknown", f"{unknown}: `cronhare settings` has all")
    return settings


def usable(container: Container) -> Container:
    """Return the container if its adapters can be made.

    Raises:
        SettingsInvalid: with every fault at once.
    """
    if faults := tuple(faults_of(container)):
        raise SettingsInvalid(faults)
    return container


def faults_of(container: Container) -> Iterator[str]:
    """Find settings that can be read and not be used."""
    settings = container.settings()
    try:
        container.engine()
    except ValueError as error:
        yield f"{settings.called('database_url')}: {error}"
    try:
        if settings.broker_kind == "amqp":
            rabbitmq.check_usable(settings.broker_url)
    except ValueError as error:
        yield f"{settings.called('broker_url')}: {error}"


def said_ledger(settings: Settings) -> str:
    """Name the ledger without its password: people may have several.

    A relative path is another file in each folder: it is shown in full.
    """
    ledger = settings.ledger
    if isinstance(ledger, LedgerFile) and not Path(ledger.path).is_absolute():
        return f"{ledger} ({located(Path(ledger.path))})"
    return str(ledger)


def load(path: Path, settings: Settings, *, state: str) -> JobsFile:
    """Read a jobs file; *state* says what was not done if it is faulty.

    Raises:
        Refusal: with every fault at once.
    """
    try:
        return read_jobs(path, policy=settings.policy)
    except JobsFileInvalid as error:
        raise jobs_refusal(error, state) from error
    except OSError as error:
        raise file_refusal(error, path, state) from error

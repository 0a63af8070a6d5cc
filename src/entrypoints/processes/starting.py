"""Runs that are asked for as a process begins: of schedules with `on_start`, and with `on_boot`."""

import logging
from collections.abc import Sequence
from datetime import datetime

from cronhare.application.administration.changing.runs import (
    Administrator,
    CannotRun,
    NotOfThisBoot,
)
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.logs import place_of, say

from ..working import WorkingContainer

log = logging.getLogger(__name__)


def run_at_start(administrator: Administrator, names: Sequence[str], *, now: datetime) -> None:
    """Ask for a run of each schedule with `on_start`.

    Raises:
        LedgerUnavailable: those before it have their run.
    """
    for name in names:
        try:
            administrator.run_at_start(name, now=now)
        except (NotFound, CannotRun) as error:
            say(log, logging.WARNING, "start.refused", f"{name} cannot run at the start: {error}")


def run_at_boot(container: WorkingContainer, names: Sequence[str]) -> None:
    """Ask for the run of each schedule with `on_boot` that this boot of the host concerns.

    Raises:
        LedgerUnavailable: to be repeated; what was begun is not run twice.
    """
    try:
        boot = container.boot()
    except OSError as error:
        text = f"Nothing runs at boot: the kernel does not tell when that was: {error}"
        say(log, logging.WARNING, "boot.unknown", text)
        return
    administrator, now = container.administrator(), container.ledger_time().now()
    for name in names:
        try:
            execution = administrator.run_at_boot(name, boot, now=now)
        except NotOfThisBoot as error:
            say(log, logging.INFO, "boot.passed", str(error))
        except (NotFound, CannotRun) as error:
            say(log, logging.WARNING, "boot.refused", f"{name} cannot run at boot: {error}")
        else:
            text = f"{name} has its run of this boot of the host"
            say(log, logging.INFO, "boot", text, **place_of(execution))

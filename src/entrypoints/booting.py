"""The schedules with `on_boot`: each worker asks for their runs, and each boot has one."""

import logging
from collections.abc import Sequence

from cronhare.adapters.system.boot import this_boot
from cronhare.application.administer import NotFound
from cronhare.application.logs import place_of, say

from .container import Container

log = logging.getLogger(__name__)


def run_at_boot(container: Container, names: Sequence[str]) -> None:
    """Ask for the run of each schedule that this boot of the host concerns.

    Raises:
        LedgerUnavailable: to be repeated; what was asked for already is not run twice.
    """
    if not names:
        return
    try:
        boot = this_boot()
    except OSError as error:
        text = f"Nothing runs at boot: the kernel does not tell when that was: {error}"
        say(log, logging.WARNING, "boot.unknown", text)
        return
    now = container.claims().now()
    for name in names:
        try:
            execution = container.administrator().run_at_boot(name, boot, now=now)
        except NotFound as error:
            text = f"{name} cannot run at boot: {error}"
            say(log, logging.WARNING, "boot.unknown", text)
            continue
        if execution is not None:
            text = f"{name} has its run of this boot of the host"
            say(log, logging.INFO, "boot", text, **place_of(execution))

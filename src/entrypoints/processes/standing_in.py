"""A scheduler tells of alerts what nobody has told: the last worker may be gone (ADR 75)."""

import asyncio
import logging
from pathlib import Path

from cronhare.adapters.jobs.reader import JobsFileInvalid, read_jobs
from cronhare.application.events import relay
from cronhare.application.events.subscribers import Subscribers
from cronhare.application.logs import say
from cronhare.domain.schedules.untellable import without_programs

from ..container import Container

log = logging.getLogger(__name__)


class StandIn:
    """Has the targets of a jobs file, and none of its tasks.

    Events are added for all targets; told are those alone that need no program of this host.
    """

    def __init__(self, container: Container, jobs: Path | None) -> None:
        """*jobs* goes before the setting; where there is neither, nobody is told."""
        self._container = container
        self._jobs = jobs
        self._told = Subscribers()

    def read(self) -> None:
        """Read the file, at the start and again; a faulty one is logged, and changes nothing."""
        settings = self._container.settings()
        path = self._jobs or settings.jobs
        if path is None:
            return
        try:
            file = read_jobs(path, policy=settings.policy)
        except (JobsFileInvalid, OSError) as error:
            text = (
                f"{path} cannot be used, so its targets are not told of alerts from here: {error}"
            )
            say(log, logging.WARNING, "notify.lacking", text)
            return
        self._container.subscribers().current = file.subscriptions
        has_mail = settings.mail_server is not None
        self._told.current = without_programs(file.subscriptions, has_mail=has_mail)

    async def run(self, ending: asyncio.Event) -> None:
        """Tell until the end is asked for."""
        telling = self._container.outbox_relay(
            subscribers=self._told, patience=relay.STAND_IN_AFTER
        )
        await telling.run(ending)

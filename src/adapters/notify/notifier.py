"""Tells a target of an event by the means that it names."""

from collections.abc import Callable
from datetime import datetime

from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.lifecycle.pings import RunEnd
from cronhare.domain.schedules.notify import (
    ByApprise,
    ByCommand,
    ByEmail,
    ByListener,
    ByPing,
    ByWebhook,
    Target,
)
from cronhare.domain.schedules.untellable import NO_MAIL_SERVER
from cronhare.ports.events import MailContent, NotDelivered
from cronhare.ports.runner import TaskRunnerPort
from cronhare.ports.system import HttpPort

from .apprise_sender import AppriseSender
from .commands import by_command, by_listener
from .mail import Mailer
from .webhooks import by_ping, by_webhook


class Notifier:
    """Satisfies `NotifierPort`. Its commands run apart from the tasks, under their own warden."""

    def __init__(
        self,
        *,
        http: HttpPort,
        runner: TaskRunnerPort,
        mailer: Mailer | None,
        apprise: AppriseSender,
        now: Callable[[], datetime],
    ) -> None:
        """Without a *mailer* no mail can be sent. *now* is the time that servers compare."""
        self._http = http
        self._runner = runner
        self._mailer = mailer
        self._apprise = apprise
        self._now = now

    async def notify(
        self,
        target: Target,
        event: OutboxRow,
        mail: MailContent | None = None,
        end: RunEnd | None = None,
    ) -> None:
        match target.means:
            case ByCommand() as means:
                await by_command(self._runner, target, means, event)
            case ByListener() as means:
                await by_listener(self._runner, target, means, event)
            case ByWebhook() as means:
                await by_webhook(self._http, target, means, event, now=self._now())
            case ByPing() as means:
                await by_ping(self._http, target, means, event, now=self._now())
            case ByEmail() as means:
                if self._mailer is None:
                    raise NotDelivered(NO_MAIL_SERVER)
                await self._mailer.send(means, event, mail, end, within=target.timeout)
            case ByApprise() as means:
                await self._apprise.send(means, event, end, within=target.timeout)

    async def close(self) -> None:
        self._apprise.close()
        await self._runner.close()

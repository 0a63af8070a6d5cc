"""Tells a target of an event by the means that it names."""

from collections.abc import Callable
from datetime import datetime

from cronhare.domain.lifecycle.events import Delivery
from cronhare.domain.schedules.notify import ByCommand, ByEmail, ByListener, ByWebhook, Target
from cronhare.ports.events import Letter, NotTold
from cronhare.ports.http import HttpPort
from cronhare.ports.runner import TaskRunnerPort

from .commands import by_command, by_listener
from .mail import Postman
from .webhooks import by_webhook


class Teller:
    """Satisfies `TellerPort`. Its commands run apart from the tasks, with a warden of their own."""

    def __init__(
        self,
        *,
        http: HttpPort,
        runner: TaskRunnerPort,
        postman: Postman | None,
        now: Callable[[], datetime],
    ) -> None:
        """Without a *postman* no mail can be sent. *now* is the time that servers compare."""
        self._http = http
        self._runner = runner
        self._postman = postman
        self._now = now

    async def tell(self, target: Target, event: Delivery, letter: Letter | None = None) -> None:
        """See `TellerPort.tell`."""
        match target.means:
            case ByCommand() as means:
                await by_command(self._runner, target, means, event)
            case ByListener() as means:
                await by_listener(self._runner, target, means, event)
            case ByWebhook() as means:
                await by_webhook(self._http, target, means, event, now=self._now())
            case ByEmail() as means:
                if self._postman is None:
                    raise NotTold("CRON_SMTP_URL names no mail server", for_good=True)
                await self._postman.send(means, event, letter, within=target.timeout)

    async def close(self) -> None:
        """See `TellerPort.close`."""
        await self._runner.close()

"""Tells a target of an event by the means that it names.

Commands and listeners are child processes that are given the event on standard input. Webhooks and
pings are POSTs: webhooks are signed in the manner of https://www.standardwebhooks.com, pings are
those of https://healthchecks.io/docs/http_api/.
"""

import hmac
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Final, assert_never

import attrs
import msgspec

from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.outbox import PING_TRIES, START_WITHIN, OutboxRow, RunEnd, read_ping
from cronhare.domain.events.targets import (
    NO_MAIL_SERVER,
    ByApprise,
    ByCommand,
    ByEmail,
    ByListener,
    ByPing,
    ByWebhook,
    Target,
    type_of,
)
from cronhare.domain.retries.outcome import Ending, read_retry_after
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.schedules.work import EVENT_VARIABLES
from cronhare.ports.events import MailContent, NotDelivered
from cronhare.ports.runner import Invocation, TaskRunnerPort
from cronhare.ports.system import HttpFailed, HttpPort, HttpRefused, HttpRequest

from .apprise import AppriseSender
from .mail import Mailer

#: Bytes of an event that fit into a variable; Linux takes 128 KiB.
_LARGEST_VARIABLE: Final = 64 * 1024

#: What calls a listener: it is imported in a process of its own, from the jobs file's folder.
_LISTEN: Final = (
    "import functools, importlib, json, sys; "
    "module, _, function = sys.argv[1].partition(':'); "
    "listener = functools.reduce(getattr, function.split('.'), importlib.import_module(module)); "
    "listener(json.load(sys.stdin))"
)

#: Bytes of an answer that are read: it says nothing but its status.
_MOST_OF_ANSWER: Final = 1_024

#: The receiver of webhooks wants to hear no more; and there is no such check to be pinged.
_GONE: Final = frozenset({410})
_NO_SUCH_CHECK: Final = frozenset({400, 401, 403, 404, 410})


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
                await self._run(target, means, event)
            case ByListener(function=function, cwd=cwd):
                command = ("python", "-c", _LISTEN, function)
                await self._run(target, ByCommand(command=command, cwd=cwd), event)
            case ByWebhook(lacks=str() as what):
                raise NotDelivered(what)
            case ByWebhook(address=address, secret=secret):
                body, now = event.payload.encode(), self._now()
                headers = {"Content-Type": "application/json", **_signed(secret, event, body, now)}
                await self._post(target, address, headers, body, for_good=_GONE, now=now)
            case ByPing(address=address):
                await self._ping(target, address, event)
            case ByEmail() as means:
                if self._mailer is None:
                    raise NotDelivered(NO_MAIL_SERVER)
                await self._mailer.send(means, event, mail, end, within=target.timeout)
            case ByApprise() as means:
                await self._apprise.send(means, event, end, within=target.timeout)
            case _:
                assert_never(target.means)  # an event that nobody sent would count as sent

    async def close(self) -> None:
        await self._runner.close()

    async def _run(self, target: Target, means: ByCommand, event: OutboxRow) -> None:
        task = Task(
            name=target.name,
            ref=TaskRef("notify", 0),
            command=means.command,
            timeout=target.timeout,
            cwd=means.cwd,
            user=means.user,
            env=_variables(target, event),
        )
        invocation = Invocation(
            execution_id=event.execution_id or 0,
            execution_key=event.event_key,
            scheduler_id=event.scheduler_id,
            schedule_name=event.schedule_name,
            attempt=event.tries,
            deaths=event.tries - 1,
            due_at=event.occurred_at,
            fence=event.tries,
            task=task,
            params=msgspec.Raw(event.payload.encode()),
        )
        result = await self._runner.run(invocation)
        if result.outcome.ending is not Ending.SUCCEEDED:
            raise NotDelivered(result.outcome.in_brief)

    async def _ping(self, target: Target, address: WebAddress, event: OutboxRow) -> None:
        ping = read_ping(event)
        if ping.is_start and self._now() - event.occurred_at > START_WITHIN:
            raise NotDelivered("it is too late to tell of a start", for_good=True)
        path, _, query = address.target.partition("?")
        asked = f"{query}&rid={ping.run}" if query else f"rid={ping.run}"
        await self._post(
            target,
            attrs.evolve(address, target=f"{path.rstrip('/')}{ping.path}?{asked}"),
            {"Content-Type": "text/plain; charset=utf-8"},
            ping.body.encode(errors="replace"),
            for_good=_NO_SUCH_CHECK,
            is_last=ping.is_start or event.tries >= PING_TRIES,
        )

    async def _post(
        self,
        target: Target,
        address: WebAddress,
        headers: Mapping[str, str],
        body: bytes,
        *,
        for_good: Collection[int],
        is_last: bool = False,
        now: datetime | None = None,
    ) -> None:
        """Post to an address. Any status but 2xx is a failure, a redirect too.

        The statuses *for good* and a failure of the *last* try are final. With *now* the address
        may ask for a wait.
        """
        request = HttpRequest(
            method="POST",
            address=address,
            headers=headers,
            body=body,
            timeout=target.timeout,
            most=_MOST_OF_ANSWER,
        )
        try:
            answer = await self._http.send(request)
        except HttpRefused as refusal:
            raise NotDelivered(str(refusal), for_good=True) from refusal
        except HttpFailed as failure:
            raise NotDelivered(str(failure), for_good=is_last) from failure
        if not answer.is_success:
            asked = None
            if now is not None:
                wait = read_retry_after(answer.headers.get("retry-after"))
                asked = wait - now if isinstance(wait, datetime) else wait
            final = is_last or answer.status in for_good
            text = f"{address} answered {answer.status}"
            raise NotDelivered(text, asked=asked, for_good=final)


def _variables(target: Target, event: OutboxRow) -> dict[str, str]:
    fits = len(event.payload.encode()) <= _LARGEST_VARIABLE
    whole = event.payload if fits else ""
    values = (type_of(event.event), event.event_key, target.name, event.schedule_name, whole)
    said = dict(zip(EVENT_VARIABLES, values, strict=True))
    return {name: text.replace("\0", "\u2400") for name, text in said.items()}


def _signed(secret: bytes | None, event: OutboxRow, body: bytes, now: datetime) -> dict[str, str]:
    timestamp = str(int(now.timestamp()))
    headers = {"webhook-id": event.event_key, "webhook-timestamp": timestamp}
    if secret is not None:
        content = b".".join((event.event_key.encode(), timestamp.encode(), body))
        digest = hmac.digest(secret, content, "sha256")
        headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"
    return headers

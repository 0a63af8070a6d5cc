"""Tells a target of an event by the means that it names."""

import hmac
from base64 import b64encode
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final

import attrs
import msgspec

from cronhare.domain.addresses.web import WebAddress
from cronhare.domain.environment import EVENT_VARIABLES
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
from cronhare.ports.events import MailContent, NotDelivered
from cronhare.ports.runner import Invocation, TaskRunnerPort
from cronhare.ports.system import HttpAnswer, HttpFailed, HttpPort, HttpRefused, HttpRequest

from .apprise_sender import AppriseSender
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


async def by_command(
    runner: TaskRunnerPort, target: Target, means: ByCommand, event: OutboxRow
) -> None:
    """Run a command; any end but exit status 0 is a failure.

    Raises:
        NotDelivered: see `NotifierPort`.
    """
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
    result = await runner.run(invocation)
    if result.outcome.ending is not Ending.SUCCEEDED:
        raise NotDelivered(result.outcome.in_brief)


async def by_listener(
    runner: TaskRunnerPort, target: Target, means: ByListener, event: OutboxRow
) -> None:
    """Call a function of Python in a process of its own; an exception is a failure.

    Raises:
        NotDelivered: see `NotifierPort`.
    """
    command = ByCommand(command=("python", "-c", _LISTEN, means.function), cwd=means.cwd)
    await by_command(runner, target, command, event)


def _variables(target: Target, event: OutboxRow) -> dict[str, str]:
    """Describe the event to a shell script; the whole of it only where it fits."""
    fits = len(event.payload.encode()) <= _LARGEST_VARIABLE
    whole = event.payload if fits else ""
    values = (type_of(event.event), event.event_key, target.name, event.schedule_name, whole)
    said = dict(zip(EVENT_VARIABLES, values, strict=True))
    return {name: text.replace("\0", "\u2400") for name, text in said.items()}


#: Bytes of an answer that are read: it says nothing but its status.
_MOST_OF_ANSWER: Final = 1_024

#: The receiver of webhooks wants to hear no more; and there is no such check to be pinged.
_GONE: Final = frozenset({410})
_NO_SUCH_CHECK: Final = frozenset({400, 401, 403, 404, 410})


async def by_webhook(
    http: HttpPort, target: Target, means: ByWebhook, event: OutboxRow, *, now: datetime
) -> None:
    """Post an event. Any status but 2xx is a failure, a redirect too.

    Raises:
        NotDelivered: see `NotifierPort`.
    """
    if means.lacks is not None:
        raise NotDelivered(means.lacks)
    body = event.payload.encode()
    request = HttpRequest(
        method="POST",
        address=means.address,
        headers={"Content-Type": "application/json", **signed(means.secret, event, body, now=now)},
        body=body,
        timeout=target.timeout,
        most=_MOST_OF_ANSWER,
    )
    await _send(http, request, means.address, for_good=_GONE, now=now)


async def by_ping(
    http: HttpPort, target: Target, means: ByPing, event: OutboxRow, *, now: datetime
) -> None:
    """Ask the address of a run's start or end; any status but 2xx is a failure.

    Raises:
        NotDelivered: see `NotifierPort`.
    """
    ping = read_ping(event)
    if ping is None:
        raise NotDelivered("its row is no ping: somebody wrote into it", for_good=True)
    if ping.is_start and now - event.occurred_at > START_WITHIN:
        raise NotDelivered("it is too late to tell of a start", for_good=True)
    request = HttpRequest(
        method="POST",
        address=_behind(means.address, ping.path, ping.run),
        headers={"Content-Type": "text/plain; charset=utf-8"},
        body=ping.body.encode(errors="replace"),
        timeout=target.timeout,
        most=_MOST_OF_ANSWER,
    )
    is_last = ping.is_start or event.tries >= PING_TRIES
    await _send(http, request, means.address, for_good=_NO_SUCH_CHECK, is_last=is_last)


def _behind(address: WebAddress, path: str, run: str) -> WebAddress:
    """Put a path behind that of an address, and the run's name into its query."""
    own, _, query = address.target.partition("?")
    asked = f"{query}&rid={run}" if query else f"rid={run}"
    return attrs.evolve(address, target=f"{own.rstrip('/')}{path}?{asked}")


async def _send(
    http: HttpPort,
    request: HttpRequest,
    address: WebAddress,
    *,
    for_good: Collection[int],
    is_last: bool = False,
    now: datetime | None = None,
) -> None:
    """Send it; the statuses *for good* and a failure of the *last* try are final.

    With *now* the address may ask for a wait.
    """
    try:
        answer = await http.send(request)
    except HttpRefused as refusal:
        raise NotDelivered(str(refusal), for_good=True) from refusal
    except HttpFailed as failure:
        raise NotDelivered(str(failure), for_good=is_last) from failure
    if not answer.is_success:
        text = f"{address} answered {answer.status}"
        asked = None if now is None else _asked(answer, now)
        raise NotDelivered(text, asked=asked, for_good=is_last or answer.status in for_good)


def signed(secret: bytes | None, event: OutboxRow, body: bytes, *, now: datetime) -> dict[str, str]:
    """Give the headers that name an event, and prove where it comes from."""
    timestamp = str(int(now.timestamp()))
    headers = {"webhook-id": event.event_key, "webhook-timestamp": timestamp}
    if secret is not None:
        content = b".".join((event.event_key.encode(), timestamp.encode(), body))
        digest = hmac.digest(secret, content, "sha256")
        headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"
    return headers


def _asked(answer: HttpAnswer, now: datetime) -> timedelta | None:
    match read_retry_after(answer.headers.get("retry-after")):
        case timedelta() as wait:
            return wait
        case datetime() as moment:
            return moment - now
    return None


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

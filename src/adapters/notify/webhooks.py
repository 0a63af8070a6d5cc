"""Webhooks and pings: an event or a run's end is a POST.

Webhooks are signed in the manner of https://www.standardwebhooks.com, pings are those of
https://healthchecks.io/docs/http_api/.
"""

import hmac
from base64 import b64encode
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.addresses.web import WebAddress
from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.lifecycle.pings import MOST_TRIES, START_WITHIN, read_ping
from cronhare.domain.retries.retry_after import read_retry_after
from cronhare.domain.schedules.notify import ByPing, ByWebhook, Target
from cronhare.ports.events import NotDelivered
from cronhare.ports.system import HttpAnswer, HttpFailed, HttpPort, HttpRefused, HttpRequest

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
    is_last = ping.is_start or event.tries >= MOST_TRIES
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

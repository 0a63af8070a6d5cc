"""Webhooks: a POST, signed in the manner of https://www.standardwebhooks.com."""

import hmac
from base64 import b64encode
from datetime import datetime, timedelta
from typing import Final

from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.retries.retry_after import read_retry_after
from cronhare.domain.schedules.notify import ByWebhook, Target
from cronhare.ports.events import NotDelivered
from cronhare.ports.http import HttpAnswer, HttpFailed, HttpPort, HttpRefused, HttpRequest

#: Bytes of an answer that are read: it says nothing but its status.
_MOST_OF_ANSWER: Final = 1_024

#: The receiver wants to hear no more.
_GONE: Final = 410


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
    try:
        answer = await http.send(request)
    except HttpRefused as refusal:
        raise NotDelivered(str(refusal), for_good=True) from refusal
    except HttpFailed as failure:
        raise NotDelivered(str(failure)) from failure
    if not answer.is_success:
        text = f"{means.address} answered {answer.status}"
        asked = _asked(answer, now)
        raise NotDelivered(text, asked=asked, for_good=answer.status == _GONE)


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

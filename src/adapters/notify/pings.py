"""Pings by HTTP, in the manner of https://healthchecks.io/docs/http_api/."""

from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.addresses import WebAddress
from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.lifecycle.pings import MOST_TRIES, START_WITHIN, read_ping
from cronhare.domain.schedules.notify import ByPing, Target
from cronhare.ports.events import NotDelivered
from cronhare.ports.http import HttpFailed, HttpPort, HttpRefused, HttpRequest

#: Bytes of an answer that are read: it says nothing but its status.
_MOST_OF_ANSWER: Final = 1_024

#: There is no such check.
_FOR_GOOD: Final = frozenset({400, 401, 403, 404, 410})


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
    try:
        answer = await http.send(request)
    except HttpRefused as refusal:
        raise NotDelivered(str(refusal), for_good=True) from refusal
    except HttpFailed as failure:
        raise NotDelivered(str(failure), for_good=is_last) from failure
    if not answer.is_success:
        text = f"{means.address} answered {answer.status}"
        raise NotDelivered(text, for_good=is_last or answer.status in _FOR_GOOD)


def _behind(address: WebAddress, path: str, run: str) -> WebAddress:
    """Put a path behind that of an address, and the run's name into its query."""
    own, _, query = address.target.partition("?")
    asked = f"{query}&rid={run}" if query else f"rid={run}"
    return attrs.evolve(address, target=f"{own.rstrip('/')}{path}?{asked}")

"""Boundary: who listens to the page's event stream, asks for what is none, or leaves midway."""

import json
import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final
from urllib.parse import quote_from_bytes

import attrs

from cronhare.entrypoints.web.page.live import MOST_LISTENERS
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
from tests.fuzz.forms import PATIENCE, House, house

FEED: Final = "feed=now"


@attrs.frozen
class Stream:
    """A site with pages that are live."""

    house: House

    def innocent(self) -> None:
        """See `Site.innocent`: one who listens gets all parts in time, whoever else does."""
        began = time.monotonic()
        with self.opened(FEED) as link:
            found = _until(link, b"}\n\n")
        spent = time.monotonic() - began
        if b" 200 " not in found[:20] or b"event: now" not in found or spent > PATIENCE:
            raise Mishandled(f"the innocent hears {found[:500]!r} after {spent:.1f} s")

    def opened(self, query: str, *headers: bytes) -> socket.socket:
        """Ask for a stream."""
        link = socket.socket()
        link.settimeout(PATIENCE)
        link.connect(("127.0.0.1", self.house.site.port))
        line = f"GET /ui/live?{query} HTTP/1.1\r\nHost: localhost\r\n".encode()
        link.sendall(line + b"".join(each + b"\r\n" for each in headers) + b"\r\n")
        return link


@contextmanager
def stream(place: Place) -> Iterator[Stream]:
    """Open the site."""
    with house(place) as found:
        yield Stream(found)


def _until(link: socket.socket, end: bytes) -> bytes:
    found = b""
    while end not in found and (more := link.recv(65_536)):
        found += more
    return found


def _status(found: bytes) -> int:
    return int(found.split()[1]) if found else 400


def _refused(query: str, at: Stream) -> Answer:
    """Ask for what is no feed."""
    with at.opened(query, b"Connection: close") as link:
        found = _until(link, b"\r\n\r\n")
    if not 400 <= _status(found) < 500:
        raise Mishandled(f"{query[:200]} is answered {found[:500]!r}")
    return Answer.REFUSED


def _resumed(last: bytes, at: Stream, query: str = FEED) -> Answer:
    """Come back after an event that there never was: all comes anew, or it is no request."""
    with at.opened(query, b"Last-Event-ID: " + last) as link:
        found = _until(link, b"}\n\n")
    if _status(found) == 400:
        return Answer.REFUSED
    lines = found.partition(b"\r\n\r\n")[2].splitlines()
    data = [line for line in lines if line.startswith(b"data: ")]
    if _status(found) != 200 or not data:
        raise Mishandled(f"after {last[:100]!r} comes {found[:500]!r}")
    try:
        json.loads(data[0].removeprefix(b"data: "))
    except ValueError as error:
        raise Mishandled(f"an event is no JSON: {data[0][:500]!r}") from error
    return Answer.HANDLED


def _reset(at: Stream) -> Answer:
    """Leave in the middle, many times, with what resets a connection."""
    for number in range(2 * MOST_LISTENERS):
        link = at.opened(FEED if number % 2 else "execution=3")
        if number % 3:
            link.recv(1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()
    _wait_for_a_place(at)
    return Answer.HANDLED


def _wait_for_a_place(at: Stream) -> None:
    """Wait until whoever left is not counted any more."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with at.opened(FEED) as link:
            if _status(_until(link, b"\r\n\r\n")) == 200:
                return
        time.sleep(0.02)
    raise Mishandled("the places of those who left are not free again")


#: What is no feed.
REFUSED: Final = {
    "nothing": "",
    "a feed and an execution of 5,000 digits": f"feed=now&execution={'9' * 5_000}",
    "two feeds": "feed=now&feed=x",
    "digits of elsewhere": "execution=%d9%a3",
    "a number beyond": f"execution={2**63}",
    "a replay beyond": f"feed=replay-{2**63}",
    "a NUL": "feed=now%00",
    "bytes": "feed=%ff%fe",
    "a script": "feed=%3Cscript%3Ealert(1)%3C/script%3E",
    "10,000 letters": f"feed={'x' * 10_000}",
}
#: Ids of events that nobody has sent.
LAST: Final = {
    "nothing": b"",
    "bytes": b"\xff\xfe\x80",
    "a quote": b"' OR 1=1 --",
    "a negative number": b"x.-1",
    "digits of elsewhere": b"x.\xb2\xb3",
    "10,000 digits": b"x." + b"9" * 10_000,
    "dots": b"." * 1_000,
    "a NUL": b"a\0b",
    "a line end": b"a\rb",
}


def _by_chance(rng: random.Random) -> Entry[Stream]:
    """Ask for bytes."""
    if rng.random() < 0.5:
        last = bytes(rng.choice(range(32, 256)) for _ in range(rng.randrange(40)))
        return Entry(f"by chance after {last!r}", partial(_resumed, last))
    query = f"{rng.choice(('feed', 'execution'))}={quote_from_bytes(rng.randbytes(3))}"
    return Entry(f"by chance {query}", partial(_refused, query))


BOUNDARY = Boundary(
    name="event stream",
    at=stream,
    entries=[
        *(
            Entry(f"asked for {name}", partial(_refused, query), short="feed and" in name)
            for name, query in REFUSED.items()
        ),
        *(
            Entry(f"back after {name}", partial(_resumed, last), short=name == "bytes")
            for name, last in LAST.items()
        ),
        *(
            Entry(f"back to output after {name}", partial(_resumed, last, query="execution=3"))
            for name, last in LAST.items()
        ),
        Entry("who leaves in the middle", _reset, short=True),
    ],
    by_chance=_by_chance,
)

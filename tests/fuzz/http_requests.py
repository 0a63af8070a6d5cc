"""Boundary: requests to the HTTP API, as bytes on a connection and as fields of a body."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus

import attrs

from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.entrypoints.web.reading import LARGEST_BODY
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
from tests.fuzz.sites import Served, served
from tests.integration.web import Site

TASK = Task(name="tokens", ref=TaskRef("report", 25), command=("true",))
SCHEDULE = {"schedule": "0 8 * * *", "report_id": 25}
#: The innocent one's, and nobody else's.
KEY = "innocent"

HEAD = (
    b"POST /schedulers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\n"
)
GOOD = json.dumps(SCHEDULE).encode()


@attrs.frozen
class Web:
    """A site whose ledger has one innocent schedule, which is posted again and again."""

    served: Served

    @property
    def site(self) -> Site:
        return self.served.site

    def innocent(self) -> None:
        """See `Site.innocent`: it is answered in its time, and nothing else was made."""
        self.served.in_time(lambda: self.site.post("/schedulers", SCHEDULE, key=KEY).status, 201)
        others = "SELECT name FROM Scheduler WHERE system_id IS NULL AND report_id <> 25"
        if broken := self.served.query(others):
            raise Mishandled(f"the ledger is not as it should be: {broken}")


@contextmanager
def web(place: Place) -> Iterator[Web]:
    """Open the site."""
    with served(place.folder, [TASK]) as found:
        yield Web(found)


def _with_body(body: bytes, *, more: bytes = b"") -> bytes:
    return b"%sContent-Length: %d\r\n%s\r\n%s" % (HEAD, len(body), more, body)


def _asked(path: str, *headers: bytes, method: str = "GET", body: bytes = b"") -> bytes:
    """Ask for a path, which stands in the line as it is."""
    line = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
    sent = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    return line + sent + b"".join(b"%s\r\n" % each for each in headers) + b"\r\n" + body


def _with_field(field: str, value: object) -> bytes:
    return _with_body(json.dumps({**SCHEDULE, field: value}).encode())


#: What must be refused.
REFUSED: dict[str, bytes] = {
    "80,000 brackets": _with_body(b'{"params": ' + b"[" * 80_000 + b"]" * 80_000 + b"}"),
    "20,000 fields that are not known": _with_body(
        json.dumps({f"f{n}": 0 for n in range(10_000)}).encode()
    ),
    "a body that is too large": _with_body(b" " * (LARGEST_BODY + 1) + GOOD),
    "a length of 30 digits": HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 30\r\n\r\n{}",
    "a length beside pieces": _with_body(b"0\r\n\r\n", more=b"Transfer-Encoding: chunked\r\n"),
    "a piece of a negative size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n",
    "a header of 1 MiB": HEAD + b"X: " + b"x" * 2**20 + b"\r\n\r\n",
    "100,000 headers": HEAD + b"X: y\r\n" * 100_000 + b"\r\n",
    "a header with a line end in it": HEAD + b"X: a\rb\r\n\r\n",
    "the key of another": _with_body(
        GOOD[:-1] + b', "user_id": 7}', more=b"Idempotency-Key: innocent\r\n"
    ),
    "a path of another folder": _with_body(GOOD).replace(b" /", b" /../../etc/"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "the end in the middle": HEAD + b'Content-Length: 100\r\n\r\n{"schedule',
}
REFUSED |= {
    "an edit of 1,500 versions": _asked(
        "/schedulers/1", b"If-Match: " + b",".join([b'"x"'] * 1_500), method="PATCH", body=b"{}"
    ),
    "2,000 parameters": _asked("/executions?" + "&".join(f"p{n}=" for n in range(2_000))),
    "a page after a number of 5,000 digits": _asked(f"/failed?after={'9' * 5_000}"),
    "a NUL that is looked for": _asked("/schedulers?search=a%00b"),
    "what is no text that is looked for": _asked("/executions?schedule=%ff%fe"),
    "a time before all zones": _asked("/executions?since=0001-01-01T00:00:00%2B14:00"),
    "a path in the name of a calendar": _asked("/calendars/..%2f..%2fetc%2fpasswd"),
    "a line end in the name of a breaker": _asked(
        "/breakers/a%0d%0aSet-Cookie:x/reset", method="POST", body=b"{}"
    ),
    "a replay by a path of brackets": _asked(
        "/failed/replay", method="POST", body=b'{"all": true, "key": "params.%s"}' % (b"a." * 500)
    ),
    "a pause with a reason of 100,000 letters": _asked(
        "/schedulers/1/pause", method="POST", body=b'{"reason": "%s"}' % (b"r" * 100_000)
    ),
    "a backfill of all times": _asked(
        "/schedulers/1/backfill",
        method="POST",
        body=b'{"since": "1970-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}',
    ),
    "a tunnel": _asked("localhost:22", method="CONNECT"),
}
#: What is rightly taken.
TAKEN: dict[str, bytes] = {
    "a script in the description": _with_field("description", "<script>alert(1)</script>\x1b[31m"),
    "64 lists in params": _with_body(
        b'{"schedule": "@daily", "report_id": 25, "params": ' + b"[" * 62 + b"]" * 62 + b"}"
    ),
    "all that % finds": _asked(f"/schedulers?search={'%25' * 255}"),
    "a tag of 10,000 letters": _asked("/replays", b'If-None-Match: "' + b"x" * 10_000 + b'"'),
    "an escaped NUL in params": _with_field("params", {"\0": "\0"}),
    "pieces of one byte": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"1\r\n%c\r\n" % byte for byte in GOOD)
    + b"0\r\n\r\n",
}

SHORT = {"80,000 brackets", "a header of 1 MiB", "the key of another", "the end in the middle"}


def _send(sent: bytes, web: Web) -> Answer:
    """Send bytes, and nothing after them; judge what comes back."""
    answered = web.site.send(sent)
    if not answered:  # it was cut off: what is not read to its end may lose its answer
        return Answer.REFUSED
    head, _, body = answered.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    if status in {200, 201, 202}:
        return Answer.HANDLED
    if not 400 <= status < 500:
        raise Mishandled(f"status {status}: {answered[:1_000]!r}")
    # What is no HTTP is refused by the server itself, in plain text.
    if b"application/problem+json" not in head and status != HTTPStatus.BAD_REQUEST:
        raise Mishandled(f"no problem: {answered[:1_000]!r}")
    if len(body) > 64 * 1024:
        raise Mishandled(f"a problem of {len(body)} bytes")
    return Answer.REFUSED


def _expected(sent: bytes, answer: Answer, web: Web) -> Answer:
    found = _send(sent, web)
    if found is not answer:
        raise Mishandled(f"it was {found.value}, and not {answer.value}")
    return found


def _by_chance(rng: random.Random) -> Entry[Web]:
    """Change bytes of a good request, or the value of one of its fields."""
    if rng.random() < 0.5:
        field = rng.choice([*SCHEDULE, "name", "date_time", "timezone", "params", "status"])
        value: object = rng.choice(
            [None, 0, -1, 2**31, 0.5, "", "\0", "0" * 300, [], {}, [[]], True]
        )
        return Entry(f"by chance {field}: {value!r}", partial(_send, _with_field(field, value)))
    sent = bytearray(_with_body(GOOD))
    for _ in range(rng.randint(1, 5)):
        sent[rng.randrange(len(sent))] = rng.randrange(256)
    return Entry(f"by chance {bytes(sent)!r}", partial(_send, bytes(sent)))


BOUNDARY = Boundary(
    name="requests",
    at=web,
    entries=[
        Entry(name, partial(_expected, sent, answer), short=name in SHORT)
        for answer, group in ((Answer.REFUSED, REFUSED), (Answer.HANDLED, TAKEN))
        for name, sent in group.items()
    ],
    by_chance=_by_chance,
)

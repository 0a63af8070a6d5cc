"""Boundary: who asks over HTTP: tokens, cookies and the form to sign in with."""

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import quote_plus

import attrs

from cronhare.domain.access import Scope, make_token
from cronhare.entrypoints.web import access
from tests.actors import ADA
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
from tests.fuzz.sites import Served, served
from tests.integration.web import Site

#: A token that exists nowhere.
STRANGER = make_token(b"\1" * 32).encode()


@attrs.frozen
class Door:
    """A site with two tokens; the innocent one reads with the first."""

    served: Served
    token: bytes

    @property
    def site(self) -> Site:
        return self.served.site

    def innocent(self) -> None:
        """See `Site.innocent`: who has a token comes in in time, and nobody else ever did."""
        known = f"Bearer {self.token.decode()}"
        self.served.in_time(lambda: self.site.get("/openapi.json", Authorization=known).status, 200)
        if (sessions := self.served.query("SELECT count(*) FROM PageSession")) != [(0,)]:
            raise Mishandled(f"somebody has a session: {sessions}")


@contextmanager
def door(place: Place) -> Iterator[Door]:
    """Open the site."""
    # What is tried here is to be judged each by itself.
    window, access.WINDOW = access.WINDOW, 0.0
    try:
        with served(place.folder) as found:
            chance = secrets.token_bytes(32)
            made = found.container.admission().create(
                "innocent", Scope.READ, lives=None, chance=chance, actor=ADA
            )
            yield Door(found, made.secret.encode())
    finally:
        access.WINDOW = window


def _head(line: bytes, *headers: bytes) -> bytes:
    rest = b"".join(each + b"\r\n" for each in headers)
    return b"%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n" % (line, rest)


def _with_token(token: bytes) -> bytes:
    return _head(b"GET /openapi.json", b"Authorization: " + token)


def _with_cookie(cookie: bytes) -> bytes:
    return _head(b"GET /ui/load", b"Accept: application/json", b"Cookie: " + cookie)


def _with_form(body: bytes, *headers: bytes) -> bytes:
    return (
        _head(
            b"POST /ui/sign-in",
            b"Content-Type: application/x-www-form-urlencoded",
            b"Sec-Fetch-Site: same-origin",
            b"Content-Length: %d" % len(body),
            *headers,
        )
        + body
    )


REFUSED: dict[str, bytes] = {
    "nothing": _head(b"GET /openapi.json"),
    "a token of nobody": _with_token(b"Bearer " + STRANGER),
    "another way": _with_token(b"Basic YWRtaW46YWRtaW4="),
    "a token of 16 KiB": _with_token(b"Bearer chr_" + b"x" * 15_000),
    "a token with a NUL": _with_token(b"Bearer chr_\0" + b"x" * 42),
    "a token of bytes": _with_token(b"Bearer chr_" + b"\xff" * 43),
    "a quote": _with_token(b"Bearer ' OR 1=1 --"),
    "two ways": _head(b"GET /openapi.json", *[b"Authorization: Bearer " + STRANGER] * 2),
    "a token in the query": _head(b"GET /openapi.json?access_token=" + STRANGER),
    "loopback by a header": _head(b"GET /openapi.json", b"X-Forwarded-For: 127.0.0.1"),
    "another method by a header": _head(b"GET /openapi.json", b"X-HTTP-Method-Override: POST"),
    "a way around": _head(b"GET /ui/static/../../openapi.json"),
    "an encoded way around": _head(b"GET /ui/static/%2e%2e/%2e%2e/openapi.json"),
    "two slashes": _head(b"GET //openapi.json"),
    "a whole address": _head(b"GET http://evil.example/openapi.json"),
    "a cookie of nobody": _with_cookie(b"cronhare_session=" + STRANGER),
    "two cookies": _with_cookie(b"cronhare_session=a; cronhare_session=" + STRANGER),
    "a cookie without a name": _with_cookie(b"=; ;;= ;cronhare_session"),
    "the cookie of TLS without": _with_cookie(b"__Host-cronhare_session=" + STRANGER),
    "a form without a token": _with_form(b""),
    "a form of 170 KiB": _with_form(b"token=" + b"x" * 170_000),
    "a form of 10,000 fields": _with_form(b"&".join(b"a=%d" % n for n in range(10_000))),
    "a form with a half letter": _with_form(b"token=%ff%fe"),
    "a form with a script": _with_form(b"token=<script>&next=javascript:alert(1)"),
    "a form of another site": _with_form(b"token=x", b"Origin: http://evil.example"),
    "a form of no site": _with_form(b"token=x", b"Origin: null"),
    "a token of nobody in the form": _with_form(b"token=" + STRANGER),
}
SHORT = {"a token of bytes", "two ways", "an encoded way around"}


def _send(sent: bytes, at: Door) -> Answer:
    """Send bytes; whatever they are, they open nothing."""
    answered = at.site.send(sent)
    if not answered:
        return Answer.REFUSED
    head, _, body = answered.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    if not 300 <= status < 500:
        raise Mishandled(f"status {status}: {answered[:1_000]!r}")
    if b"set-cookie" in head.lower() or b"<script>" in body or b"evil.example" in head:
        raise Mishandled(f"it opened something: {answered[:1_000]!r}")
    if at.token in answered or STRANGER in answered:
        raise Mishandled("a token is in the answer")
    return Answer.REFUSED


def _by_chance(rng: random.Random) -> Entry[Door]:
    """Change bytes of what brings a token of nobody."""
    kind = rng.choice((_with_token, _with_cookie, _with_form))
    prefix = {_with_token: b"Bearer ", _with_cookie: b"cronhare_session=", _with_form: b"token="}
    token = bytearray(STRANGER)
    for _ in range(rng.randint(1, 5)):
        token[rng.randrange(len(token))] = rng.randrange(256)
    given = quote_plus(bytes(token)).encode() if kind is _with_form else bytes(token)
    sent = kind(prefix[kind] + given)
    return Entry(f"by chance {sent!r}", partial(_send, sent))


BOUNDARY = Boundary(
    name="tokens",
    at=door,
    entries=[
        Entry(name, partial(_send, sent), short=name in SHORT) for name, sent in REFUSED.items()
    ],
    by_chance=_by_chance,
)

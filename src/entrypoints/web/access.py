"""Who asks over HTTP: by a token or a session, from where, and whether they may."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from math import ceil
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import attrs
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from cronhare.adapters.addresses import ListenAddress, meant_address
from cronhare.application.administration.changing.access import Admission
from cronhare.domain import access
from cronhare.domain.access import LOCAL, Actor, Channel, digest_of
from cronhare.domain.addresses import checked_host

from ..settings.settings import Login
from ..vitals import HEALTH, READINESS
from .asking import Asker
from .problems import Problem


@attrs.frozen(kw_only=True)
class Meant:
    """The host that is meant: an *address* of this machine, or a name of `CRON_WEB_HOSTS`.

    A name is of a proxy, which speaks TLS: *is_https*.
    """

    host: str
    address: ListenAddress | None

    @property
    def is_https(self) -> bool:
        return self.address is None

    @property
    def origin(self) -> str:
        return f"{'https' if self.is_https else 'http'}://{self.host}".lower()


def meant_by(host: str, scope: Scope, names: Collection[str]) -> Meant | None:
    name, colon, port = host.partition(":")
    if names and (not colon or port.isdecimal()):
        try:
            if checked_host(name) in names:
                return Meant(host=host, address=None)
        except ValueError:
            pass
    address = meant_address(host, (scope.get("server") or ("", 0))[0])
    return None if address is None else Meant(host=host, address=address)


#: The cookie of a session, over TLS and without: the prefix has browsers take it from TLS alone,
#: and from no neighbour's domain.
COOKIE: Final = "cronhare_session"
SECURE_COOKIE: Final = "__Host-cronhare_session"

#: What a proxy adds that stands before us.
_OF_PROXIES: Final = (
    "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip",
)  # fmt: skip

#: What may be asked for by whoever has not said who it is: how to do that, and what it looks like.
SIGN_IN: Final = "/ui/sign-in"
_FILES: Final = "/ui/static/"


@attrs.frozen(kw_only=True)
class Credentials:
    """What a request brings: a *token*, or the *session* of a page, or neither that can be read."""

    token: str | None = attrs.field(default=None, repr=False)
    session: str | None = attrs.field(default=None, repr=False)
    is_unreadable: bool = False


def channel_of(scope: Scope) -> Channel:
    path = scope["path"]
    return Channel.PAGE if path == "/" or path.startswith("/ui/") else Channel.API


def is_probe(scope: Scope) -> bool:
    """Whether it is asked if this process lives, or is ready: whoever starts it has no token."""
    return scope["path"] in {HEALTH, READINESS}


def address_of(scope: Scope) -> str:
    return (scope.get("client") or ("",))[0]


def is_from_this_machine(scope: Scope, *, host: ListenAddress | None) -> bool:
    """Whether a request comes straight from here: client and *host*, which its Host names.

    Of one that a proxy hands on the client is anybody.
    """
    headers = Headers(scope=scope)
    if host is None or not host.is_loopback or any(name in headers for name in _OF_PROXIES):
        return False
    try:
        return ip_address(address_of(scope)).is_loopback
    except ValueError:
        return False


def credentials_of(scope: Scope, *, https: bool) -> Credentials:
    """Read what a request brings. The session is for the page alone, over TLS by its own name."""
    headers = Headers(scope=scope)
    given = headers.getlist("authorization")
    if given:
        kind, _, token = given[0].partition(" ")
        if len(given) > 1 or kind.lower() != "bearer" or not token.strip():
            return Credentials(is_unreadable=True)
        return Credentials(token=token.strip())
    if channel_of(scope) is not Channel.PAGE:
        return Credentials()
    return Credentials(session=_cookie(headers, SECURE_COOKIE if https else COOKIE))


def _cookie(headers: Headers, name: str) -> str | None:
    """Give the cookie; of several with its name none, as one of them is somebody else's."""
    found: list[str] = []
    for header in headers.getlist("cookie"):
        for part in header.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                found.append(value)
    return found[0] if len(found) == 1 else None


_READING: Final = frozenset({"GET", "HEAD"})
_NO_SITE_BUT_OURS: Final = frozenset({"same-origin", "none"})

LONGEST_PATH: Final = 2_048


def local_path(text: str) -> str:
    """Give where a browser goes on to after it has signed in: a path of this site, or the first.

    >>> local_path("/ui/failed?limit=5"), local_path("//evil.example"), local_path("/ui/sign-in")
    ('/ui/failed?limit=5', '/', '/')
    """
    fits = len(text) <= LONGEST_PATH and text.isascii() and text.isprintable()
    is_local = text.startswith("/") and not text.startswith("//") and "\\" not in text
    returns = text.startswith((SIGN_IN, "/ui/sign-out"))
    return text if fits and is_local and not returns else "/"


def is_from_here(sites: Collection[str]) -> bool:
    """Whether `Sec-Fetch-Site` names no other site; a program sends none."""
    return all(site in _NO_SITE_BUT_OURS for site in sites)


def is_visit(scope: Scope) -> bool:
    """Whether somebody follows a link, from a message say, to look at the page: in no frame."""
    headers = Headers(scope=scope)
    return (
        scope["method"] in _READING
        and channel_of(scope) is Channel.PAGE
        and headers.getlist("sec-fetch-mode") == ["navigate"]
        and headers.getlist("sec-fetch-dest") == ["document"]
    )


def is_for_people(scope: Scope) -> bool:
    accepted = Headers(scope=scope).get("accept", "")
    return channel_of(scope) is Channel.PAGE and "text/html" in accepted


def to_sign_in(request: Request) -> Response:
    """Send somebody to sign in, and back again.

    A browser that follows a link of another site does not bring our cookie. So it is asked to come
    again from here, which it does with it.
    """
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    path = local_path(asked) if request.method in _READING else "/"
    if not is_from_here(request.headers.getlist("sec-fetch-site")):
        target = quote(path, safe="/?&=%-._~:,+")
        return HTMLResponse(
            '<!doctype html><html lang="en"><title>cronhare</title>'
            f'<meta http-equiv="refresh" content="0; url={target.replace("&", "&amp;")}">'
        )
    query = "" if path == "/" else f"?{urlencode({'next': path})}"
    return RedirectResponse(f"{SIGN_IN}{query}", 303)


#: Wrong tries in a window of so many seconds: from one address, and from all together.
WINDOW = 60.0
MOST_FROM_ONE: Final = 10
MOST_FROM_ALL: Final = 100

#: Addresses that are remembered.
MOST_REMEMBERED: Final = 1_000


@attrs.define
class Tries:
    """Counts wrong tries; *now* is of a clock that only goes forward, in seconds.

    Nobody can guess a token: this keeps the ledger from being asked by who tries many.
    """

    _of_one: OrderedDict[str, deque[float]] = attrs.field(factory=OrderedDict, init=False)
    _of_all: deque[float] = attrs.field(init=False, factory=lambda: deque(maxlen=MOST_FROM_ALL))

    def wait(self, address: str, *, now: float) -> float:
        """Say how many seconds it takes until the next try; 0 if it may be made now."""
        counted = [self._of_all, self._of_one.get(address, deque(maxlen=1))]
        return max([0.0, *(each[0] + WINDOW - now for each in counted if len(each) == each.maxlen)])

    def was_wrong(self, address: str, *, now: float) -> None:
        tries = self._of_one.pop(address, None) or deque(maxlen=MOST_FROM_ONE)
        tries.append(now)
        self._of_all.append(now)
        self._of_one[address] = tries
        if len(self._of_one) > MOST_REMEMBERED:
            self._of_one.popitem(last=False)


T = TypeVar("T")

#: Seconds for which an answer of the ledger counts: a revoked token opens nothing after them.
FRESH: Final = 2.0
_MOST_KEPT: Final = 1_000

#: Whoever has not said who it is, where nobody need.
NOBODY: Final = Actor(name="nobody", channel=Channel.PAGE, scope=access.Scope.NOTHING)

_CHALLENGE: Final = 'Bearer realm="cronhare"'
_WHO: Final = (
    "who asks? Send one header Authorization: Bearer with a token (`cronhare tokens create` makes "
    "one), or sign in at /ui/sign-in"
)


@attrs.define
class Gate:
    """Who asks, by what a request brings, and by where it comes from."""

    _asker: Asker
    _tries: Tries = attrs.field(factory=Tries, init=False)
    _looking: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _known: OrderedDict[str, tuple[float, object]] = attrs.field(factory=OrderedDict, init=False)

    async def admit(self, scope: Scope, meant: Meant) -> Actor:
        """Give who asks.

        Raises:
            Problem: 401 with what would say who it is, or 429 with how long to wait.
            LedgerUnavailable: it cannot be found out.
        """
        path = scope["path"]
        if is_probe(scope) or path.startswith(_FILES):  # which tell nothing
            return NOBODY
        brought = credentials_of(scope, https=meant.is_https)
        if brought.token is not None:
            return await self._by_token(scope, brought.token)
        if brought.session is not None:
            key = f"session {digest_of(brought.session)}"
            question = partial(self._admission.by_session, brought.session)
            token = await self._fresh(key, question)
            if token is not None:
                return token.actor(channel_of(scope))
        if not brought.is_unreadable and await self._is_free(scope, meant):
            return Actor(name=LOCAL, channel=channel_of(scope), scope=access.Scope.ADMIN)
        if path == SIGN_IN:
            return NOBODY
        raise _unauthorized(_WHO)

    async def _by_token(self, scope: Scope, secret: str) -> Actor:
        digest = digest_of(secret)
        await self.refuse_too_many(scope, digest)
        token = await self._fresh(f"token {digest}", partial(self._admission.by_token, secret))
        if token is None:
            self.was_wrong(scope)
            raise _unauthorized("this token is not valid: it is none, has expired or was revoked")
        return token.actor(channel_of(scope))

    async def _is_free(self, scope: Scope, meant: Meant) -> bool:
        """Whether somebody without a token is `local`, who may do everything.

        Once a token was made, valid or not, that ends: whoever revokes the last one does not open
        the door with it.
        """
        login = Login(self._asker.container.settings().web_login)
        if login is Login.ALWAYS or not is_from_this_machine(scope, host=meant.address):
            return False
        return login is Login.NEVER or not await self._fresh("any", self._admission.any_token)

    async def refuse_too_many(self, scope: Scope, digest: str) -> None:
        """Refuse a wrong try that comes too soon after others.

        A right one waits for nobody, and the wrong ones behind the limit cost the ledger one look
        in `FRESH` seconds, however many they are.

        Raises:
            Problem: with how long to wait.
            LedgerUnavailable: it cannot be found out whether this one is wrong.
        """
        wait = self._tries.wait(address_of(scope), now=time.monotonic())
        if wait <= 0:
            return
        async with self._looking:  # who waits meanwhile is answered by the same look
            valid = await self._fresh("valid", self._admission.valid_digests)
        if digest not in valid:
            detail = f"too many tokens were tried that are none; try again in {ceil(wait)} s"
            headers = {"Retry-After": str(ceil(wait))}
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, detail, headers=headers)

    def was_wrong(self, scope: Scope) -> None:
        self._tries.was_wrong(address_of(scope), now=time.monotonic())

    def forget(self, cookie: str) -> None:
        self._known.pop(f"session {digest_of(cookie)}", None)

    async def _fresh(self, key: str, question: Callable[[], T]) -> T:
        """Ask the ledger, unless it has just answered. What is not there is asked for again."""
        now = time.monotonic()
        kept = self._known.get(key)
        if kept is not None and now < kept[0] + FRESH:
            answer: T = kept[1]  # type: ignore[assignment]
            return answer
        answer = await self._asker.ask(question)
        self._known.pop(key, None)
        if answer is not None:
            self._known[key] = now, answer
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        return answer

    @property
    def names(self) -> Collection[str]:
        return self._asker.container.settings().web_hosts

    @property
    def _admission(self) -> Admission:
        return self._asker.container.admission()


def _unauthorized(detail: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": _CHALLENGE})


def actor_of(request: Request) -> Actor:
    actor: Actor = request.state.actor
    return actor


def gate_of(request: Request) -> Gate:
    gate: Gate = request.state.gate
    return gate


def need(actor: Actor, scope: access.Scope) -> None:
    """Refuse who may not. Raises Problem: 403, with the scope that is needed."""
    if not actor.may(scope):
        detail = f"this needs the scope {scope}; {actor.name} has {actor.scope}"
        challenge = f'Bearer realm="cronhare", error="insufficient_scope", scope="{scope}"'
        headers = {"WWW-Authenticate": challenge}
        raise Problem(HTTPStatus.FORBIDDEN, detail, headers=headers)

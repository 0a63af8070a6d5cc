"""Whoever asks is found out here, before any route is reached: an actor, or a refusal."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from http import HTTPStatus
from math import ceil
from typing import Final, TypeVar

import attrs
from starlette.types import Scope

from cronhare.application.administration.changing.access import Admission
from cronhare.domain import access
from cronhare.domain.access import LOCAL, Actor, Channel, Login, Token, Tries, digest_of, is_free

from ..asking import Asker
from ..hosts import Meant
from ..problems import Problem
from .approach import (
    Credentials,
    address_of,
    approach_of,
    channel_of,
    credentials_of,
    is_file,
    is_probe,
    is_sign_in,
)

T = TypeVar("T")

#: Seconds for which an answer of the ledger counts: a revoked token opens nothing after them.
FRESH: Final = 2.0
_MOST_KEPT: Final = 1_000

#: Whoever has not said who it is, where nobody need.
NOBODY: Final = Actor(name="nobody", channel=Channel.PAGE, scope=access.Scope.NOTHING)

_CHALLENGE: Final = 'Bearer realm="cronhare"'


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
        if is_file(scope) or is_probe(scope):
            return NOBODY
        brought = credentials_of(scope, https=meant.is_https)
        if brought.token is not None:
            return await self._by_token(scope, brought.token)
        if brought.session is not None:
            token = await self._by_session(brought.session)
            if token is not None:
                return token.actor(channel_of(scope))
        if brought.fault is None and await self._is_free(scope, meant):
            return Actor(name=LOCAL, channel=channel_of(scope), scope=access.Scope.ADMIN)
        if is_sign_in(scope):
            return NOBODY
        raise _who_is_it(brought)

    async def _by_token(self, scope: Scope, secret: str) -> Actor:
        digest, address = digest_of(secret), address_of(scope)
        await self.refuse_too_many(address, digest)
        token: Token | None = await self._fresh(
            f"token {digest}", lambda: self._admission.by_token(secret)
        )
        self.note(address, digest, valid=token is not None)
        if token is None:
            raise _unauthorized("this token is not valid: it is none, has expired or was revoked")
        return token.actor(channel_of(scope))

    async def _by_session(self, cookie: str) -> Token | None:
        return await self._fresh(
            f"session {digest_of(cookie)}", lambda: self._admission.by_session(cookie)
        )

    async def _is_free(self, scope: Scope, meant: Meant) -> bool:
        approach = approach_of(scope, host=meant.address)
        login = Login(self._asker.container.settings().web_login)
        if not is_free(approach, login, any_token=False):
            return False
        any_token = await self._fresh("any", self._admission.any_token)
        return is_free(approach, login, any_token=any_token)

    async def refuse_too_many(self, address: str, digest: str) -> None:
        """Refuse a wrong try that comes too soon after others.

        A right one waits for nobody, and the wrong ones behind the limit cost the ledger one look
        in `FRESH` seconds, however many they are.

        Raises:
            Problem: with how long to wait.
            LedgerUnavailable: it cannot be found out whether this one is wrong.
        """
        wait = self._tries.wait(address, digest, now=time.monotonic())
        if wait > 0 and digest not in await self._valid_digests():
            detail = f"too many tokens were tried that are none; try again in {ceil(wait)} s"
            headers = {"Retry-After": str(ceil(wait))}
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, detail, headers=headers)

    async def _valid_digests(self) -> frozenset[str]:
        async with self._looking:  # who waits meanwhile is answered by the same look
            return await self._fresh("valid", self._admission.valid_digests)

    def note(self, address: str, digest: str, *, valid: bool) -> None:
        """Count a try that was wrong, and remember a token that is valid."""
        if valid:
            self._tries.was_valid(digest)
        else:
            self._tries.was_wrong(address, digest, now=time.monotonic())

    def forget(self, cookie: str) -> None:
        """Take a session for ended at once, here."""
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
        """The names by which this host is asked for through a proxy."""
        return self._asker.container.settings().web_hosts

    @property
    def _admission(self) -> Admission:
        return self._asker.container.admission()


def _who_is_it(brought: Credentials) -> Problem:
    if brought.fault is not None:
        return _unauthorized(brought.fault)
    return _unauthorized(
        "who asks? Send Authorization: Bearer with a token (`cronhare tokens create` makes one), "
        "or sign in at /ui/sign-in"
    )


def _unauthorized(detail: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": _CHALLENGE})

"""Who asks, by a token or a session; and making, listing and revoking tokens."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Self

import attrs

from cronhare.domain.access import (
    LONGEST_SESSION,
    USED_EVERY,
    Actor,
    Channel,
    Scope,
    Session,
    Token,
    digest_of,
    looks_like_token,
    make_token,
    new_token,
)
from cronhare.domain.audit import Action
from cronhare.ports import LedgerRefused, LedgerUnavailable
from cronhare.ports.records import AccessStorePort

from ..audit import AuditTrail
from ..reading.lookup import NotFound, not_found
from ..views.values import same


@attrs.frozen(kw_only=True)
class TokenView:
    """A token; *valid* says whether it opens anything, *problem* why it does not."""

    name: str
    scope: str
    valid: bool
    problem: str | None
    created_at: datetime
    made_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, token: Token, *, now: datetime) -> Self:
        problem = token.why_not(now)
        new = {"scope": token.scope.word, "valid": problem is None, "problem": problem}
        return cls(**same(cls, token) | new)


@attrs.frozen(kw_only=True)
class NewTokenView(TokenView):
    """A token that was just made, with its secret: it is shown this once, and kept nowhere."""

    secret: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class SignedIn:
    """A session that was begun: the *secret* of its cookie, and for how many seconds it lasts."""

    secret: str = attrs.field(repr=False)
    seconds: int


class TokenNameTaken(ValueError):
    """A valid token has this name; nothing was changed."""


@attrs.frozen(kw_only=True)
class Admission:
    """Lets people in by tokens and sessions, and has their tokens."""

    _access: AccessStorePort
    _trail: AuditTrail

    def any_token(self) -> bool:
        return self._access.any_token()

    def valid_digests(self) -> frozenset[str]:
        now = self._trail.now()
        return frozenset(
            token.digest for token in self._access.tokens() if token.why_not(now) is None
        )

    def by_token(self, secret: str) -> Token | None:
        """Find the valid token that a secret is, and note that it was used."""
        if not looks_like_token(secret):
            return None
        # The index compares digests, whose times tell nothing of a secret.
        token = self._access.token(digest_of(secret))
        return None if token is None else self._valid(token, self._trail.now())

    def by_session(self, cookie: str) -> Token | None:
        if not looks_like_token(cookie):
            return None
        found, now = self._access.session(digest_of(cookie)), self._trail.now()
        if found is None or found[0].is_over(now):
            return None
        return self._valid(found[1], now)

    def sign_in(self, secret: str, *, chance: bytes) -> SignedIn | None:
        """Begin a session with a token, of the random bytes *chance*; None if it is not valid."""
        token = self.by_token(secret)
        if token is None:
            return None
        cookie, now = make_token(chance), self._trail.now()
        ends = now + LONGEST_SESSION
        if token.expires_at is not None:
            ends = min(ends, token.expires_at)
        session = Session(
            digest=digest_of(cookie),
            token=token.name,
            token_digest=token.digest,
            created_at=now,
            expires_at=ends,
        )
        actor = token.actor(Channel.PAGE)
        after = {"expires_at": ends.isoformat()}
        with self._trail.change(actor, Action.SIGN_IN, token.name, after=after):
            self._access.begin(session, now=now)
        return SignedIn(secret=cookie, seconds=int((ends - now).total_seconds()))

    def sign_out(self, cookie: str, *, actor: Actor) -> None:
        with self._trail.change(actor, Action.SIGN_OUT, actor.name):
            self._access.end(digest_of(cookie))

    def _valid(self, token: Token, now: datetime) -> Token | None:
        if token.why_not(now) is not None:
            return None
        if token.last_used_at is None or token.last_used_at <= now - USED_EVERY:
            # A ledger that can only be read must not keep people out.
            with suppress(LedgerUnavailable, LedgerRefused):
                self._access.used(token.digest, now=now)
        return token

    def create(
        self,
        name: str,
        scope: Scope,
        *,
        lives: timedelta | None,
        chance: bytes,
        actor: Actor,
    ) -> NewTokenView:
        """Make a token of the random bytes *chance*; it ends after it *lives* so long."""
        secret, now = make_token(chance), self._trail.now()
        token = new_token(name, scope, digest=digest_of(secret), lives=lives, now=now, by=actor)
        ends = token.expires_at and token.expires_at.isoformat()
        after = {"scope": scope.word, "expires_at": ends}
        with self._trail.change(actor, Action.MAKE_TOKEN, name, after=after):
            if not self._access.create(token, now=now):
                raise TokenNameTaken(
                    f"there is a token {name!r} already: revoke it, or name another"
                )
        shown = TokenView.of(token, now=now)
        return NewTokenView(**attrs.asdict(shown), secret=secret)

    def tokens(self) -> Sequence[TokenView]:
        now = self._trail.now()
        return [TokenView.of(token, now=now) for token in self._access.tokens()]

    def valid(self) -> int:
        return sum(token.valid for token in self.tokens())

    def revoke(self, name: str, *, actor: Actor) -> TokenView:
        """Let a token, and the sessions that were begun with it, open nothing any more."""
        there = {token.name: token for token in self._access.tokens()}
        if (token := there.get(name)) is None:
            raise not_found("token", name, there)
        before = {"scope": token.scope.word}
        with self._trail.change(actor, Action.REVOKE_TOKEN, name, before=before) as note:
            revoked = self._access.revoke(name, now=note.at)
            note.unless(changed=token.revoked_at is None)
            if revoked is None:
                raise NotFound(f"there is no token {name!r} any more")
        return TokenView.of(revoked, now=note.at)

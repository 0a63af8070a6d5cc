"""Making, listing and revoking tokens."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import attrs

from cronhare.domain.access import Actor, Scope
from cronhare.domain.access.audit import Action
from cronhare.domain.access.tokens import digest_of, make_token, new_token
from cronhare.ports.records import AccessStorePort

from .audit_trail import AuditTrail
from .lookup import NotFound
from .views.tokens import NewTokenView, TokenView


class TokenNameTaken(ValueError):
    """A valid token has this name; nothing was changed."""


@attrs.frozen(kw_only=True)
class TokenDesk:
    """Each method may raise `LedgerUnavailable`."""

    _access: AccessStorePort
    _trail: AuditTrail

    def create(
        self,
        name: str,
        scope: Scope,
        *,
        lives: timedelta | None,
        chance: bytes,
        now: datetime,
        actor: Actor,
    ) -> NewTokenView:
        """Make a token of the random bytes *chance*; it ends after it *lives* so long.

        Raises:
            TokenInvalid: its name or its life cannot be.
            TokenNameTaken: a valid one has its name.
        """
        secret = make_token(chance)
        token = new_token(name, scope, digest=digest_of(secret), lives=lives, now=now, by=actor)
        ends = token.expires_at and token.expires_at.isoformat()
        after = {"scope": scope.word, "expires_at": ends}
        with self._trail.change(actor, Action.MAKE_TOKEN, name, now=now, after=after):
            if not self._access.create(token, now=now):
                raise TokenNameTaken(
                    f"there is a token {name!r} already: revoke it, or name another"
                )
        shown = TokenView.of(token, now=now)
        return NewTokenView(**attrs.asdict(shown), secret=secret)

    def tokens(self, *, now: datetime) -> Sequence[TokenView]:
        """List tokens by name, those as well that are no more valid."""
        return [TokenView.of(token, now=now) for token in self._access.tokens()]

    def valid(self, *, now: datetime) -> int:
        """Count those that are valid."""
        return sum(token.why_not(now) is None for token in self._access.tokens())

    def revoke(self, name: str, *, now: datetime, actor: Actor) -> TokenView:
        """Let a token, and the sessions that were begun with it, open nothing any more.

        Raises:
            NotFound: there is none.
        """
        there = {token.name: token for token in self._access.tokens()}
        if name not in there:
            known = ", ".join(there) or "none"
            raise NotFound(f"there is no token {name!r}; there is {known}")
        with self._trail.change(
            actor, Action.REVOKE_TOKEN, name, now=now, before={"scope": there[name].scope.word}
        ) as note:
            revoked = self._access.revoke(name, now=now)
            note.unless(changed=there[name].revoked_at is None)
            if revoked is None:
                raise NotFound(f"there is no token {name!r} any more")
        return TokenView.of(revoked, now=now)

"""Tokens and the audit, as people see them."""

from datetime import datetime
from typing import Any, Self

import attrs

from cronhare.domain.access import Token
from cronhare.domain.audit import AuditEntry

from .values import same


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
class AuditView:
    """Who changed what: *actor* on the way *channel*, at a time, from *before* to *after*.

    *outcome* is `unknown` where the process ended before it could say; *problem* says why a change
    was refused.
    """

    id: int
    at: datetime
    actor: str
    channel: str
    action: str
    target: str
    before: Any
    after: Any
    outcome: str
    problem: str | None
    finished_at: datetime | None

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        return cls(**same(cls, entry))

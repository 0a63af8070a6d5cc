"""Tokens and the audit, as people see them."""

from datetime import datetime
from typing import Any, Self

import attrs

from cronhare.domain.access import Token
from cronhare.domain.audit import AuditEntry


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
        """Show a token."""
        problem = token.why_not(now)
        return cls(
            name=token.name,
            scope=token.scope.word,
            valid=problem is None,
            problem=problem,
            created_at=token.created_at,
            made_by=token.made_by,
            expires_at=token.expires_at,
            revoked_at=token.revoked_at,
            last_used_at=token.last_used_at,
        )


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
        """Show an entry."""
        return cls(
            id=entry.id,
            at=entry.at,
            actor=entry.actor,
            channel=str(entry.channel),
            action=str(entry.action),
            target=entry.target,
            before=entry.before,
            after=entry.after,
            outcome=entry.outcome.value,
            problem=entry.problem,
            finished_at=entry.finished_at,
        )

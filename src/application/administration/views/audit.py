"""Entries of the audit, as people look at them."""

from datetime import datetime
from typing import Any, Self

import attrs

from cronhare.domain.access.audit import AuditEntry


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

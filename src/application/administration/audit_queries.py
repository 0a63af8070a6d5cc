"""What people read of the audit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from cronhare.ports.records import AuditFilter, AuditStorePort

from .views.audit import AuditView

#: So many entries are listed at most, at a time.
MOST_LISTED: Final = 1_000


class AuditQueries:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    def __init__(self, entries: AuditStorePort) -> None:
        """*entries* are the ledger's."""
        self._entries = entries

    def entries(
        self,
        *,
        since: datetime | None = None,
        actor: str | None = None,
        target: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[AuditView]:
        """List entries, newest first; the next page begins *before* the id of the last one."""
        which = AuditFilter(since=since, actor=actor, target=target)
        found = self._entries.entries(which, before=before, limit=min(limit, MOST_LISTED))
        return [AuditView.of(entry) for entry in found]

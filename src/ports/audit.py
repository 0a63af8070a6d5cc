"""The audit: every change that somebody asked for."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import attrs

from cronhare.domain.access.audit import AuditEntry, Intent, Result


@attrs.frozen(kw_only=True)
class AuditFilter:
    """Which entries are meant: all conditions hold, and None is no condition.

    *target* is a name as it was written; *actor* as well. *since* is inclusive.
    """

    since: datetime | None = None
    actor: str | None = None
    target: str | None = None


class AuditStorePort(Protocol):
    """Keeps entries. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_audit_store_contract.py does not assert is not promised.
    """

    def begin(self, intents: Sequence[Intent]) -> Sequence[int]:
        """Write entries without an outcome, all or none; answers their ids, in that order.

        When it returns, they are there whatever becomes of this process.
        """
        ...

    def finish(self, results: Sequence[Result]) -> None:
        """Write what became of entries. One that has its outcome keeps it; safe to repeat."""
        ...

    def entries(
        self, which: AuditFilter, *, before: int | None, limit: int
    ) -> Sequence[AuditEntry]:
        """List the newest *limit* entries, newest first; those with an id below *before*."""
        ...

"""The audit: rows that are inserted before a change, and completed once."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, delete, func, insert, select, update

from cronhare.domain.access.audit import AuditEntry, AuditOutcome, Intent, Result
from cronhare.ports.records import AuditFilter

from .database import Database, Store, repeatable
from .rows.own import OwnTable
from .schema.tables import audit
from .schema.types import UtcDateTime

_INSERT: Final = insert(audit)
_FINISH: Final = (
    update(audit)
    .where(audit.c.id == bindparam("entry"), audit.c.outcome.is_(None))
    .values(
        outcome=bindparam("became"),
        problem=bindparam("why"),
        finished_at=bindparam("ended", type_=UtcDateTime),
        value_after=func.coalesce(bindparam("found"), audit.c.value_after),
    )
)

#: So many old entries go in one transaction.
STEP: Final = 1_000
_OLD: Final = (
    select(audit.c.id)
    .where(audit.c.at < bindparam("limit", type_=UtcDateTime))
    .order_by(audit.c.at)
    .limit(STEP)
)
_DELETE: Final = delete(audit).where(audit.c.id.in_(bindparam("ids", expanding=True)))

ENTRY: Final = OwnTable(audit, outcome=AuditOutcome | None)


class SqlAuditStore(Store):
    """Satisfies `AuditStorePort`."""

    @repeatable
    def begin(self, intents: Sequence[Intent]) -> Sequence[int]:
        ids: list[int] = []
        with self._database.write("writing the audit") as connection:
            for intent in intents:
                values = {
                    "at": intent.at,
                    "actor": intent.actor.name,
                    "channel": intent.actor.channel.value,
                    "action": intent.action.value,
                    "target": intent.target,
                    "value_before": _written(intent.before),
                    "value_after": _written(intent.after),
                }
                done = connection.execute(_INSERT, values)
                ids.extend(done.inserted_primary_key or ())
        return ids

    @repeatable
    def finish(self, results: Sequence[Result]) -> None:
        rows = [
            {
                "entry": result.id,
                "became": result.outcome.value,
                "why": result.problem,
                "ended": result.at,
                "found": _written(result.after),
            }
            for result in sorted(results, key=lambda each: each.id)
        ]
        with self._database.write("completing the audit") as connection:
            for row in rows:
                connection.execute(_FINISH, row)

    @repeatable
    def entries(
        self, which: AuditFilter, *, before: int | None, limit: int
    ) -> Sequence[AuditEntry]:
        asked = select(audit).order_by(audit.c.id.desc()).limit(limit)
        if which.since is not None:
            asked = asked.where(audit.c.at >= which.since)
        if which.actor is not None:
            asked = asked.where(audit.c.actor == which.actor)
        if which.target is not None:
            asked = asked.where(audit.c.target == which.target)
        if before is not None:
            asked = asked.where(audit.c.id < before)
        with self._database.read("reading the audit") as connection:
            return list(map(_entry, ENTRY.readable(connection.execute(asked))))


def forget_audit(database: Database, before: datetime) -> Iterator[None]:
    """Delete, step by step, the entries from before then."""
    while True:
        with database.read("looking for old entries of the audit") as connection:
            ids = list(connection.scalars(_OLD, {"limit": before}))
        if ids:
            with database.write("deleting old entries of the audit") as connection:
                connection.execute(_DELETE, {"ids": ids})
        if len(ids) < STEP:
            return
        yield


def _written(value: Any) -> str | None:  # noqa: ANN401 - a JSON value
    return None if value is None else msgspec.json.encode(value).decode()


def _entry(row: Any) -> AuditEntry:  # noqa: ANN401 - see `OwnTable.each`
    return AuditEntry(
        id=row.id,
        at=row.at,
        actor=row.actor,
        channel=row.channel,
        action=row.action,
        target=row.target,
        before=_read(row.value_before),
        after=_read(row.value_after),
        outcome=row.outcome or AuditOutcome.UNKNOWN,
        problem=row.problem,
        finished_at=row.finished_at,
    )


def _read(text: str | None) -> Any:  # noqa: ANN401 - a JSON value
    return None if text is None else msgspec.json.decode(text)

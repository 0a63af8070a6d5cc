"""Who may: tokens and sessions, by their digests. Who did: the audit."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import attrs
import msgspec
from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from cronhare.domain.access import USED_EVERY, Scope, Session, Token
from cronhare.domain.audit import AuditEntry, AuditOutcome, Intent, Result
from cronhare.ports.records import AuditFilter

from .database import Store, repeatable
from .tables.tables import audit, page_sessions, tokens
from .tables.types import OwnTable, moment_of

TOKEN: Final = OwnTable(tokens, scope=Literal["read", "operate", "admin"])

_NAMED: Final = tokens.c.name == bindparam("token_name")
_WITH_DIGEST: Final = tokens.c.digest == bindparam("of")
_USED: Final = (
    update(tokens)
    .where(
        _WITH_DIGEST,
        or_(tokens.c.last_used_at.is_(None), tokens.c.last_used_at <= moment_of("before")),
    )
    .values(last_used_at=moment_of("now"))
)
_REVOKE: Final = (
    update(tokens).where(_NAMED, tokens.c.revoked_at.is_(None)).values(revoked_at=moment_of("now"))
)
_OVER: Final = delete(page_sessions).where(page_sessions.c.expires_at <= moment_of("now"))
_SESSION: Final = select(page_sessions).where(page_sessions.c.digest == bindparam("of"))
_FORGET: Final = delete(tokens).where(_WITH_DIGEST)
_TOKENS: Final = select(tokens).order_by(tokens.c.name)
_BY_NAME: Final = select(tokens).where(_NAMED)
_BY_DIGEST: Final = select(tokens).where(_WITH_DIGEST)


class SqlAccessStore(Store):
    """Satisfies `AccessStorePort`."""

    @repeatable
    def create(self, token: Token, *, now: datetime) -> bool:
        named = {"token_name": token.name}
        with self._database.write(f"making the token {token.name}") as connection:
            rows = connection.execute(_BY_NAME.with_for_update(), named).all()
            for there in _read(rows):
                if there.why_not(now) is None:
                    return there.digest == token.digest  # it was made, and its answer lost
            for row in rows:  # and none that somebody else has made since
                connection.execute(_FORGET, {"of": row.digest})
            connection.execute(insert(tokens), attrs.asdict(token) | {"scope": token.scope.word})
        return True

    @repeatable
    def tokens(self) -> Sequence[Token]:
        with self._database.read("listing tokens") as connection:
            return _read(connection.execute(_TOKENS))

    @repeatable
    def any_token(self) -> bool:
        with self._database.read("looking for tokens") as connection:
            return connection.execute(select(tokens.c.name).limit(1)).first() is not None

    @repeatable
    def token(self, digest: str) -> Token | None:
        with self._database.read("looking for a token") as connection:
            return next(iter(_read(connection.execute(_BY_DIGEST, {"of": digest}))), None)

    @repeatable
    def used(self, digest: str, *, now: datetime) -> None:
        asked = {"of": digest, "now": now, "before": now - USED_EVERY}
        with self._database.write("noting the use of a token") as connection:
            connection.execute(_USED, asked)

    @repeatable
    def revoke(self, name: str, *, now: datetime) -> Token | None:
        with self._database.write(f"revoking the token {name}") as connection:
            connection.execute(_REVOKE, {"token_name": name, "now": now})
            for token in _read(connection.execute(_BY_NAME, {"token_name": name})):
                of_it = page_sessions.c.token_digest == token.digest
                connection.execute(delete(page_sessions).where(of_it))
                return token
            return None

    @repeatable
    def begin(self, session: Session, *, now: datetime) -> None:
        with self._database.write("beginning a session of the page") as connection:
            connection.execute(_OVER, {"now": now})
            there = page_sessions.c.digest == session.digest
            connection.execute(delete(page_sessions).where(there))
            connection.execute(insert(page_sessions), attrs.asdict(session))

    @repeatable
    def session(self, digest: str) -> tuple[Session, Token] | None:
        with self._database.read("looking for a session") as connection:
            row = connection.execute(_SESSION, {"of": digest}).first()
            if row is None:
                return None
            session = Session(**row._asdict())
            found = _read(connection.execute(_BY_DIGEST, {"of": session.token_digest}))
            return next(((session, token) for token in found), None)

    @repeatable
    def end(self, digest: str) -> None:
        with self._database.write("ending a session of the page") as connection:
            connection.execute(delete(page_sessions).where(page_sessions.c.digest == digest))


def _read(rows: Iterable[Any]) -> list[Token]:
    found = map(msgspec.structs.asdict, TOKEN.readable(rows))
    return [Token(**{**row, "scope": Scope.parse(row["scope"])}) for row in found]


_INSERT: Final = insert(audit)
_FINISH: Final = (
    update(audit)
    .where(audit.c.id == bindparam("entry"), audit.c.outcome.is_(None))
    .values(
        outcome=bindparam("became"),
        problem=bindparam("why"),
        finished_at=moment_of("ended"),
        value_after=func.coalesce(bindparam("found"), audit.c.value_after),
    )
)

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


def _written(value: Any) -> str | None:  # noqa: ANN401 - a JSON value
    return None if value is None else msgspec.json.encode(value).decode()


def _entry(row: Any) -> AuditEntry:  # noqa: ANN401 - see `OwnTable.each`
    fields = msgspec.structs.asdict(row)
    for name in ("before", "after"):
        text = fields.pop(f"value_{name}")
        fields[name] = None if text is None else msgspec.json.decode(text)
    return AuditEntry(**{**fields, "outcome": row.outcome or AuditOutcome.UNKNOWN})

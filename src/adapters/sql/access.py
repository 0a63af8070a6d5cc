"""Tokens and sessions: found by their digests, as nobody has the secrets themselves."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Engine, Row, bindparam, delete, insert, or_, select, update

from cronhare.domain.access import Scope
from cronhare.domain.access.sessions import Session
from cronhare.domain.access.tokens import USED_EVERY, Token
from cronhare.ports.system import ClockPort

from .database import Database, repeatable
from .schema.tables import page_sessions, tokens
from .schema.types import UtcDateTime

_NAMED: Final = tokens.c.name == bindparam("token_name")
_WITH_DIGEST: Final = tokens.c.digest == bindparam("of")
_USED: Final = (
    update(tokens)
    .where(
        _WITH_DIGEST,
        or_(
            tokens.c.last_used_at.is_(None),
            tokens.c.last_used_at <= bindparam("before", type_=UtcDateTime),
        ),
    )
    .values(last_used_at=bindparam("now", type_=UtcDateTime))
)
_REVOKE: Final = (
    update(tokens)
    .where(_NAMED, tokens.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("now", type_=UtcDateTime))
)
_OVER: Final = delete(page_sessions).where(
    page_sessions.c.expires_at <= bindparam("now", type_=UtcDateTime)
)
_SESSION: Final = (
    select(
        page_sessions.c.token,
        page_sessions.c.token_digest,
        page_sessions.c.created_at.label("begun_at"),
        page_sessions.c.expires_at.label("ends_at"),
        *tokens.c,
    )
    .join(tokens, tokens.c.digest == page_sessions.c.token_digest)
    .where(page_sessions.c.digest == bindparam("of"))
)


class SqlAccessStore:
    """Satisfies `AccessStorePort`. A method that is `repeatable` is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def create(self, token: Token, *, now: datetime) -> bool:
        named = {"token_name": token.name}
        with self._database.write(f"making the token {token.name}") as connection:
            row = connection.execute(select(tokens).where(_NAMED).with_for_update(), named).first()
            if row is not None:
                there = _token(row)
                if there is not None and there.why_not(now) is None:
                    return there.digest == token.digest  # it was made, and its answer lost
                connection.execute(delete(tokens).where(_NAMED), named)
            connection.execute(insert(tokens), _values(token))
        return True

    @repeatable
    def tokens(self) -> Sequence[Token]:
        with self._database.read("listing tokens") as connection:
            rows = connection.execute(select(tokens).order_by(tokens.c.name)).all()
        return [token for token in map(_token, rows) if token is not None]

    @repeatable
    def any_token(self) -> bool:
        with self._database.read("looking for tokens") as connection:
            return connection.execute(select(tokens.c.name).limit(1)).first() is not None

    @repeatable
    def token(self, digest: str) -> Token | None:
        with self._database.read("looking for a token") as connection:
            row = connection.execute(select(tokens).where(_WITH_DIGEST), {"of": digest}).first()
        return None if row is None else _token(row)

    @repeatable
    def used(self, digest: str, *, now: datetime) -> None:
        asked = {"of": digest, "now": now, "before": now - USED_EVERY}
        with self._database.write("noting the use of a token") as connection:
            connection.execute(_USED, asked)

    @repeatable
    def revoke(self, name: str, *, now: datetime) -> Token | None:
        with self._database.write(f"revoking the token {name}") as connection:
            connection.execute(_REVOKE, {"token_name": name, "now": now})
            row = connection.execute(select(tokens).where(_NAMED), {"token_name": name}).first()
            if row is None:
                return None
            of_it = page_sessions.c.token_digest == row.digest
            connection.execute(delete(page_sessions).where(of_it))
        return _token(row)

    @repeatable
    def begin(self, session: Session, *, now: datetime) -> None:
        with self._database.write("beginning a session of the page") as connection:
            connection.execute(_OVER, {"now": now})
            there = page_sessions.c.digest == session.digest
            connection.execute(delete(page_sessions).where(there))
            connection.execute(
                insert(page_sessions),
                {
                    "digest": session.digest,
                    "token": session.token,
                    "token_digest": session.token_digest,
                    "created_at": session.created_at,
                    "expires_at": session.expires_at,
                },
            )

    @repeatable
    def session(self, digest: str) -> tuple[Session, Token] | None:
        with self._database.read("looking for a session") as connection:
            row = connection.execute(_SESSION, {"of": digest}).first()
        token = None if row is None else _token(row)
        if row is None or token is None:
            return None
        session = Session(
            digest=digest,
            token=row.token,
            token_digest=row.token_digest,
            created_at=row.begun_at,
            expires_at=row.ends_at,
        )
        return session, token

    @repeatable
    def end(self, digest: str) -> None:
        with self._database.write("ending a session of the page") as connection:
            connection.execute(delete(page_sessions).where(page_sessions.c.digest == digest))


def _values(token: Token) -> dict[str, Any]:
    return {
        "name": token.name,
        "scope": token.scope.word,
        "digest": token.digest,
        "created_at": token.created_at,
        "made_by": token.made_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
    }


def _token(row: Row[Any]) -> Token | None:
    """Read a token; a row that a person spoilt opens nothing."""
    try:
        scope = Scope.parse(row.scope)
    except ValueError:
        return None
    return Token(
        name=row.name,
        scope=scope,
        digest=row.digest,
        created_at=row.created_at,
        made_by=row.made_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )

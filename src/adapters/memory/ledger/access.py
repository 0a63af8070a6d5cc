"""Tokens and sessions, in memory."""

from collections.abc import Sequence
from datetime import datetime

import attrs

from cronhare.domain.access.sessions import Session
from cronhare.domain.access.tokens import USED_EVERY, Token

from .tables import MemoryLedger


class MemoryAccessStore:
    """Satisfies `AccessStorePort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def create(self, token: Token, *, now: datetime) -> bool:
        with self._ledger.lock:
            there = self._ledger.tokens.get(token.name)
            if there is not None and there.why_not(now) is None:
                return False
            self._ledger.tokens[token.name] = token
            return True

    def tokens(self) -> Sequence[Token]:
        with self._ledger.lock:
            return sorted(self._ledger.tokens.values(), key=lambda each: each.name)

    def any_token(self) -> bool:
        with self._ledger.lock:
            return bool(self._ledger.tokens)

    def token(self, digest: str) -> Token | None:
        with self._ledger.lock:
            found = (each for each in self._ledger.tokens.values() if each.digest == digest)
            return next(found, None)

    def used(self, digest: str, *, now: datetime) -> None:
        with self._ledger.lock:
            token = self.token(digest)
            if token is not None and (
                token.last_used_at is None or token.last_used_at <= now - USED_EVERY
            ):
                self._ledger.tokens[token.name] = attrs.evolve(token, last_used_at=now)

    def revoke(self, name: str, *, now: datetime) -> Token | None:
        with self._ledger.lock:
            token = self._ledger.tokens.get(name)
            if token is None:
                return None
            if token.revoked_at is None:
                token = self._ledger.tokens[name] = attrs.evolve(token, revoked_at=now)
            for digest, session in [*self._ledger.sessions.items()]:
                if session.token_digest == token.digest:
                    del self._ledger.sessions[digest]
            return token

    def begin(self, session: Session, *, now: datetime) -> None:
        with self._ledger.lock:
            for each in [*self._ledger.sessions.values()]:
                if each.is_over(now):
                    del self._ledger.sessions[each.digest]
            self._ledger.sessions[session.digest] = session

    def session(self, digest: str) -> tuple[Session, Token] | None:
        with self._ledger.lock:
            session = self._ledger.sessions.get(digest)
            token = None if session is None else self.token(session.token_digest)
            return None if session is None or token is None else (session, token)

    def end(self, digest: str) -> None:
        with self._ledger.lock:
            self._ledger.sessions.pop(digest, None)

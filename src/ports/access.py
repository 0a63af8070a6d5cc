"""Tokens, and the sessions that were begun with them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from cronhare.domain.access.sessions import Session
from cronhare.domain.access.tokens import Token


class AccessStorePort(Protocol):
    """Keeps tokens and sessions by their digests. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_access_store_contract.py does not assert is not promised.
    """

    def create(self, token: Token, *, now: datetime) -> bool:
        """Keep a token; False if another has its name and is valid. One that is not is replaced."""
        ...

    def tokens(self) -> Sequence[Token]:
        """List tokens by name, those as well that are no more valid."""
        ...

    def any_token(self) -> bool:
        """Whether a token was ever made."""
        ...

    def token(self, digest: str) -> Token | None:
        """Find a token by its digest, valid or not."""
        ...

    def used(self, digest: str, *, now: datetime) -> None:
        """Note that a token was used; nothing, if that was within `USED_EVERY`."""
        ...

    def revoke(self, name: str, *, now: datetime) -> Token | None:
        """Revoke a token, with its sessions; answers it as it is then, None if there is none.

        One that was revoked before keeps when that was.
        """
        ...

    def begin(self, session: Session, *, now: datetime) -> None:
        """Keep a session, and delete those that are over."""
        ...

    def session(self, digest: str) -> tuple[Session, Token] | None:
        """Find a session by the digest of its cookie, with the token that it was begun with."""
        ...

    def end(self, digest: str) -> None:
        """Delete a session. Safe to repeat."""
        ...

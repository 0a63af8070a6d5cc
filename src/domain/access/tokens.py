"""Tokens: secrets by which people and programs are known over HTTP.

A token has 256 random bits, so that nobody can guess one, and a hash that is quick to make is
enough: no list of words leads to it. What the ledger has tells nobody a token.
"""

import base64
import hashlib
import re
from datetime import datetime, timedelta
from typing import Final

import attrs

from ..texts.moments import say_moment
from ..texts.words import NAME
from .actor import LOCAL, Actor, Channel, Scope

#: By its beginning a token is known for one, in a log or a repository, by people and scanners.
PREFIX: Final = "chr_"
RANDOM_BYTES: Final = 32

_FORM: Final = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}", re.ASCII)
_NAME: Final = re.compile(NAME)

LONGEST_LIFE: Final = timedelta(days=3_650)

#: That a token was used is written down at most so often.
USED_EVERY: Final = timedelta(minutes=1)


class TokenInvalid(ValueError):
    """A token cannot be made as it is asked for."""


def make_token(chance: bytes) -> str:
    """Write a token of random bytes.

    >>> make_token(bytes(32))
    'chr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
    """
    assert len(chance) == RANDOM_BYTES
    return PREFIX + base64.urlsafe_b64encode(chance).rstrip(b"=").decode()


def looks_like_token(text: str) -> bool:
    """Whether a text has the form of a token; nothing else need be looked for."""
    return _FORM.fullmatch(text) is not None


def digest_of(secret: str) -> str:
    """Give what is kept of a token, or of a session."""
    return hashlib.sha256(secret.encode()).hexdigest()


@attrs.frozen(kw_only=True)
class Token:
    """What the ledger knows of a token: never the token itself.

    It ends at *expires_at* or *revoked_at*; at that moment it is no more valid. *made_by* is the
    name of who made it.
    """

    name: str
    scope: Scope
    digest: str = attrs.field(repr=False)
    created_at: datetime
    made_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def why_not(self, now: datetime) -> str | None:
        """Say why it is not valid; None if it is."""
        if self.revoked_at is not None:
            return f"it was revoked at {say_moment(self.revoked_at)}"
        if self.expires_at is not None and self.expires_at <= now:
            return f"it expired at {say_moment(self.expires_at)}"
        return None

    def actor(self, channel: Channel) -> Actor:
        """Give who asks with it."""
        return Actor(name=self.name, channel=channel, scope=self.scope)


def new_token(
    name: str, scope: Scope, *, digest: str, lives: timedelta | None, now: datetime, by: Actor
) -> Token:
    """Make what is kept of a new token.

    Raises:
        TokenInvalid: its name or its life cannot be.
    """
    if not _NAME.fullmatch(name) or name == LOCAL:
        raise TokenInvalid(
            f"a token's name has a-z, 0-9 and . _ -, at most 63, and is not {LOCAL!r}"
        )
    if lives is not None and not timedelta(0) < lives <= LONGEST_LIFE:
        raise TokenInvalid(f"a token lives for 1 second to {LONGEST_LIFE.days:,} days")
    return Token(
        name=name,
        scope=scope,
        digest=digest,
        created_at=now,
        made_by=by.name,
        expires_at=None if lives is None else now + lives,
    )

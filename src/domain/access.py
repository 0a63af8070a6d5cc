"""Who may ask for what: actors and their scopes, tokens, sessions of the page."""

import base64
import hashlib
import re
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Final

import attrs

from .texts.moments import say_moment
from .texts.words import NAME

#: The most characters of a name that an audit keeps.
LONGEST_ACTOR: Final = 255


class Scope(IntEnum):
    """How far somebody may go; each includes those below it.

    `NOTHING` is of whoever has not said who it is. `READ` sees everything, and changes nothing.
    `OPERATE` also runs, cancels, pauses, resumes, replays, discards, releases and drains. `ADMIN`
    also creates, edits, enables, disables and deletes schedules, and reaches what others own.
    """

    NOTHING = 0
    READ = 1
    OPERATE = 2
    ADMIN = 3

    @classmethod
    def parse(cls, text: str) -> "Scope":
        """Read the word that stands for a scope.

        Raises:
            ValueError: it is none; the text says what is allowed.
        """
        for scope in GIVEN:
            if scope.word == text:
                return scope
        raise ValueError(f"must be one of {', '.join(scope.word for scope in GIVEN)}")

    @property
    def word(self) -> str:
        return self.name.lower()

    def __str__(self) -> str:
        return self.word


#: The scopes that a token may have.
GIVEN: Final = (Scope.READ, Scope.OPERATE, Scope.ADMIN)


class Channel(StrEnum):
    """The way on which somebody asks."""

    CLI = "cli"
    API = "api"
    PAGE = "page"
    CODE = "code"


def _a_name(_: object, __: object, value: str) -> None:
    if not value or len(value) > LONGEST_ACTOR or not value.isprintable():
        raise ValueError(f"an actor has a name of 1 to {LONGEST_ACTOR} printable characters")


@attrs.frozen(kw_only=True)
class Actor:
    """Somebody who asks: the name of a token, `user@host` of a command line, or `local`."""

    name: str = attrs.field(validator=_a_name)
    channel: Channel
    scope: Scope

    def may(self, needed: Scope) -> bool:
        return self.scope >= needed


#: The name of whoever asks over loopback without a token.
LOCAL: Final = "local"


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
    name of who made it. A token has 256 random bits: nobody guesses one, so a quick hash is enough.
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
        if self.revoked_at is not None:
            return f"it was revoked at {say_moment(self.revoked_at)}"
        if self.expires_at is not None and self.expires_at <= now:
            return f"it expired at {say_moment(self.expires_at)}"
        return None

    def actor(self, channel: Channel) -> Actor:
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


#: A session ends so long after it began, used or not.
LONGEST_SESSION: Final = timedelta(hours=12)


@attrs.frozen(kw_only=True)
class Session:
    """A sign-in with a token; *digest* is of its cookie, *token* the name of the token.

    The cookie is a secret of its own: a browser never keeps the token.
    """

    digest: str = attrs.field(repr=False)
    token: str
    token_digest: str = attrs.field(repr=False)
    created_at: datetime
    expires_at: datetime

    def is_over(self, now: datetime) -> bool:
        return self.expires_at <= now

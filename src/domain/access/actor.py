"""Who asks for something, on which way, and how far that reaches."""

from enum import IntEnum, StrEnum
from typing import Final

import attrs

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

        >>> Scope.parse("operate") > Scope.READ
        True

        Raises:
            ValueError: it is none; the text says what is allowed.
        """
        for scope in GIVEN:
            if scope.word == text:
                return scope
        raise ValueError(f"must be one of {', '.join(scope.word for scope in GIVEN)}")

    @property
    def word(self) -> str:
        """The word that people write for it."""
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
        """Whether what needs a scope is allowed.

        >>> Actor(name="ci", channel=Channel.API, scope=Scope.OPERATE).may(Scope.ADMIN)
        False
        """
        return self.scope >= needed


#: The name of whoever asks over loopback without a token.
LOCAL: Final = "local"

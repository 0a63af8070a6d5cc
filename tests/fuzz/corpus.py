"""What a boundary is: a site, entries that are tried there, and what they are answered."""

import enum
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import attrs

from tests.services import mariadb, rabbitmq


class Answer(enum.Enum):
    """What became of an input, in good order."""

    HANDLED = "handled"
    REFUSED = "refused"


class Mishandled(AssertionError):
    """A traceback, a hang, a restart loop, silence, a half-written state, an innocent who waits."""


class Site(Protocol):
    """Where entries are tried."""

    def innocent(self) -> None:
        """Have innocent work done, and look for what is wrong whatever was tried.

        Raises:
            Mishandled: the work did not end in its time, or something was found.
        """
        ...


@attrs.frozen
class Place:
    """What a site is built on: an empty folder, and servers that are started when asked for."""

    folder: Path
    start_broker: Callable[[], rabbitmq.Server]
    start_database: Callable[[], mariadb.Server]

    @property
    def broker(self) -> rabbitmq.Server:
        return self.start_broker()

    @property
    def database(self) -> mariadb.Server:
        return self.start_database()


S = TypeVar("S", bound=Site)


@attrs.frozen
class Entry(Generic[S]):
    """One input: *attempt* applies it, and says what became of it or raises `Mishandled`."""

    name: str
    attempt: Callable[[S], Answer]
    short: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen(kw_only=True)
class Boundary(Generic[S]):
    """One place where the outside comes in. *by_chance* makes further entries in the long form."""

    name: str
    at: Callable[[Place], AbstractContextManager[S]]
    entries: Sequence[Entry[S]]
    by_chance: Callable[[random.Random], Entry[S]] | None = None

    def __attrs_post_init__(self) -> None:
        names = [entry.name for entry in self.entries]
        twice = {name for name in names if names.count(name) > 1}
        assert not twice, f"{self.name} has two entries of the name {twice}"


AnyBoundary = Boundary[Any]

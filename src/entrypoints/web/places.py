"""Places of connections: which one makes room for another, once all are taken."""

import asyncio
from collections.abc import Iterable
from enum import IntEnum
from operator import itemgetter
from typing import Protocol


class Loss(IntEnum):
    """What a connection loses that makes room for another one, from the least on.

    `NOTHING`: it is at rest, and its client connects again unharmed. `REQUEST`: its request, or the
    first one, has not come as a whole. `ANSWER`: it does not take what it was answered.
    """

    NOTHING = 0
    REQUEST = 1
    ANSWER = 2


class Place(Protocol):
    """A connection, as far as its place is concerned."""

    transport: asyncio.Transport

    def standing(self) -> tuple[Loss, float] | None:
        """Say what it would lose with its place, and since when it is idle; None while at work."""
        ...

    def has_unread(self) -> bool:
        """Whether bytes have come that are about to be read: they may be a whole request."""
        ...


def made_room(others: Iterable[Place]) -> bool:
    """Close the one that loses least, the longest idle of these; False if all are at work.

    A request that has come as a whole is answered, also one that was not read yet. Who does not
    take an answer is not read from: what it sends besides holds no place.
    """
    found = [(standing, each) for each in others if (standing := each.standing()) is not None]
    for (loss, _), each in sorted(found, key=itemgetter(0)):
        if loss is Loss.ANSWER or not each.has_unread():
            each.transport.abort()
            return True
    return False

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


def bound_untaken(places: Iterable[Place], most: int) -> None:
    """Close those that do not take their answers, until no more than *most* bytes wait in all.

    The largest goes first; who has just been answered goes after those that had time to take it.
    """
    sizes = {each: size for each in places if (size := each.transport.get_write_buffer_size())}
    excess = sum(sizes.values()) - most
    for each in sorted(sizes, key=lambda each: (each.standing() is None, -sizes[each])):
        if excess <= 0:
            return
        each.transport.abort()
        excess -= sizes[each]

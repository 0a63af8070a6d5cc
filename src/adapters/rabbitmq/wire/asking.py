"""What is asked of a broker about its topology, and its no, whichever client asks."""

from collections.abc import Callable
from typing import Final

import attrs

from cronhare.domain.topology import Binding, Exchange, Queue

ACCESS_REFUSED, NOT_FOUND, LOCKED, PRECONDITION_FAILED = 403, 404, 405, 406

#: Said by a broker that ends, or whose operator ends the connection: of nothing that was asked.
CONNECTION_FORCED: Final = 320

#: Connections that one walk may lose to what it asks for. A broker that is ill is not hammered.
MOST_LOST: Final = 8


#: Gives the arguments that a queue is declared with.
ArgumentsOf = Callable[[Queue], dict[str, object]]


@attrs.frozen
class Look:
    """Is it there?"""

    thing: Exchange | Queue


@attrs.frozen
class Make:
    """Make it if it is not there. What is there stays, and may be reason to refuse."""

    thing: Exchange | Queue


@attrs.frozen
class Bind:
    """Have a road; the broker does not double one."""

    binding: Binding


Question = Look | Make | Bind


@attrs.frozen(kw_only=True)
class Refused:
    """The broker's no, in AMQP's code and its own words.

    It costs the channel, or, where the broker fails over the question (`INTERNAL_ERROR`), the
    connection.
    """

    code: int
    text: str
    costs_connection: bool
    cause: BaseException = attrs.field(repr=False)


@attrs.define
class Losses:
    """Counts the connections that one walk through a topology has lost to its questions."""

    many: int = 0

    @property
    def are_bearable(self) -> bool:
        """Whether a question may cost the connection: it has not happened too often."""
        return self.many < MOST_LOST

    def note(self, code: int) -> bool:
        """Note one that was ended with *code*; False if no question cost it, or one too many."""
        if code == CONNECTION_FORCED or not self.are_bearable:
            return False
        self.many += 1
        return True

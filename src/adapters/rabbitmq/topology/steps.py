"""The steps of declaring a topology, and the broker's refusal of one, for both clients alike."""

from collections.abc import Callable
from typing import Final

import attrs
from pika.spec import CONNECTION_FORCED

from cronhare.domain.topology import Binding, Exchange, Queue

#: Connections that one pass may lose over its steps. A broker that is ill is not hammered.
MOST_LOST: Final = 8

#: Gives the arguments that a queue is declared with.
ArgumentsOf = Callable[[Queue], dict[str, object]]


@attrs.frozen
class PassiveDeclare:
    """Ask whether it is there."""

    thing: Exchange | Queue


@attrs.frozen
class Declare:
    """Make it if it is not there. What is there stays, and may be a reason to refuse."""

    thing: Exchange | Queue


@attrs.frozen
class Bind:
    """Bind; a binding that is there is not doubled."""

    binding: Binding


Step = PassiveDeclare | Declare | Bind


@attrs.frozen(kw_only=True)
class Refused:
    """The broker's refusal of a step: AMQP's reply code, and the broker's own words.

    It costs the channel, or, where the broker fails over the step (`INTERNAL_ERROR`), the
    connection.
    """

    code: int
    text: str
    costs_connection: bool
    cause: BaseException = attrs.field(repr=False)


@attrs.define
class ConnectionLosses:
    """Counts the connections that one pass through a topology has lost over its steps."""

    many: int = 0

    @property
    def within_limit(self) -> bool:
        """Whether another step may cost the connection."""
        return self.many < MOST_LOST

    def note(self, code: int) -> bool:
        """Count a connection that ended with *code*; False if no step cost it, or one too many.

        `CONNECTION_FORCED` is said by a broker that stops, or whose operator ends the connection.
        """
        if code == CONNECTION_FORCED or not self.within_limit:
            return False
        self.many += 1
        return True

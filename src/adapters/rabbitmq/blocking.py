"""pika's blocking connections: let go of for certain, and asked although a refusal costs them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Self, TypeVar

from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from cronhare.domain.topology import Exchange, Queue

from .address import Address
from .trouble import TROUBLE, resolving

ACCESS_REFUSED, NOT_FOUND, LOCKED, PRECONDITION_FAILED = 403, 404, 405, 406

#: Said by a broker that ends, or whose operator ends the connection: of nothing that was asked.
_CONNECTION_FORCED: Final = 320

#: Connections that one walk may lose to what it asks for. A broker that is ill is not hammered.
MOST_LOST: Final = 8

T = TypeVar("T")

#: The broker's no. It costs the channel, or, where the broker fails over the question
#: (`INTERNAL_ERROR`), the connection.
Refused = ChannelClosedByBroker | ConnectionClosedByBroker

#: Gives the arguments that a queue is declared with.
ArgumentsOf = Callable[[Queue], dict[str, object]]


@contextmanager
def letting_go(connection: BlockingConnection) -> Iterator[BlockingConnection]:
    """Let go of it at the end."""
    try:
        yield connection
    finally:
        _let_go(connection)


def _let_go(connection: BlockingConnection) -> None:
    """Close it. Under an alarm the broker reads no farewell: then we go without."""
    with suppress(*TROUBLE):
        connection.close()


def connect(
    address: Address,
    *,
    name: str,
    heartbeat: int | None = None,
    blocked_timeout: float | None = None,
) -> BlockingConnection:
    """Connect to the first node that answers.

    Raises:
        Exception: what pika says of the last one (`TROUBLE`).
    """
    *others, last = (
        address.for_pika(node, name=name, heartbeat=heartbeat, blocked_timeout=blocked_timeout)
        for node in address.nodes()
    )
    for node in others:  # pika itself would give up at a name that cannot be asked for
        with suppress(*TROUBLE), resolving():
            return BlockingConnection(node)
    with resolving():
        return BlockingConnection(last)


class Walk:
    """One walk through a topology. What the broker refuses costs the walk nothing but time."""

    def __init__(
        self, connecting: Callable[[], BlockingConnection], arguments_of: ArgumentsOf
    ) -> None:
        """Connect by *connecting*, and again after each question that cost the connection."""
        self.connection = connecting()
        self._connecting = connecting
        self._arguments_of = arguments_of
        self._channel: BlockingChannel | None = None
        self._lost = 0

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the latest connection."""
        _let_go(self.connection)

    @property
    def can_lose(self) -> bool:
        """Whether a question may cost the connection: it has not happened too often."""
        return self._lost < MOST_LOST

    def look_at(self, thing: Exchange | Queue) -> Any | Refused:  # noqa: ANN401
        """Ask whether it is there; of a queue pika's answer has the counts."""
        match thing:
            case Exchange(name=name):
                return self.ask(lambda channel: channel.exchange_declare(name, passive=True))
            case Queue(name=name):
                return self.ask(lambda channel: channel.queue_declare(name, passive=True))

    def declare(self, thing: Exchange | Queue) -> Refused | None:
        """Make it if it is not there. What is there stays as it is, and may be reason to refuse."""
        return self.ask(lambda channel: self._declare(channel, thing))

    def ask(self, act: Callable[[BlockingChannel], T]) -> T | Refused:
        """Act, and answer what comes of it; or the broker's refusal.

        Raises:
            Exception: what pika says (`TROUBLE`): the broker is away, or closes each connection.
        """
        if not self.connection.is_open:
            self.connection, self._channel = self._connecting(), None
        try:
            if self._channel is None or not self._channel.is_open:
                self._channel = self.connection.channel()
            return act(self._channel)
        except ChannelClosedByBroker as refusal:
            return refusal
        except ConnectionClosedByBroker as refusal:
            if refusal.reply_code == _CONNECTION_FORCED or not self.can_lose:
                raise
            self._lost += 1
            return refusal

    def _declare(self, channel: BlockingChannel, thing: Exchange | Queue) -> None:
        match thing:
            case Exchange(name=name, kind=kind, alternate=None):
                channel.exchange_declare(name, kind, durable=True)
            case Exchange(name=name, kind=kind, alternate=alternate):
                more = {"alternate-exchange": alternate}
                channel.exchange_declare(name, kind, durable=True, arguments=more)
            case Queue(name=name):
                channel.queue_declare(name, durable=True, arguments=self._arguments_of(thing))

"""pika's blocking connections: let go of for certain, and asked although refusals cost channels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from cronhare.domain.topology import Exchange, Queue

from .address import Address
from .trouble import TROUBLE

ACCESS_REFUSED, NOT_FOUND, LOCKED, PRECONDITION_FAILED = 403, 404, 405, 406

T = TypeVar("T")

#: Gives the arguments that a queue is declared with.
ArgumentsOf = Callable[[Queue], dict[str, object]]


@contextmanager
def opened(
    address: Address, *, name: str, blocked_timeout: float | None = None
) -> Iterator[BlockingConnection]:
    """Connect to any node. Under an alarm the broker reads no farewell: then we go without."""
    connection = connect(address, name=name, blocked_timeout=blocked_timeout)
    try:
        yield connection
    finally:
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
    return BlockingConnection(
        [
            address.for_pika(node, name=name, heartbeat=heartbeat, blocked_timeout=blocked_timeout)
            for node in address.nodes()
        ]
    )


class Walk:
    """One walk through a topology. What the broker refuses costs the channel, and nothing else."""

    def __init__(self, connection: BlockingConnection, arguments_of: ArgumentsOf) -> None:
        self._connection = connection
        self._arguments_of = arguments_of
        self._channel: BlockingChannel | None = None

    def look_at(self, thing: Exchange | Queue) -> Any | ChannelClosedByBroker:  # noqa: ANN401
        """Ask whether it is there; of a queue pika's answer has the counts."""
        match thing:
            case Exchange(name=name):
                return self.ask(lambda channel: channel.exchange_declare(name, passive=True))
            case Queue(name=name):
                return self.ask(lambda channel: channel.queue_declare(name, passive=True))

    def declare(self, thing: Exchange | Queue) -> ChannelClosedByBroker | None:
        """Make it if it is not there. What is there stays as it is, and may be reason to refuse."""
        answer = self.ask(lambda channel: self._declare(channel, thing))
        return answer if isinstance(answer, ChannelClosedByBroker) else None

    def ask(self, act: Callable[[BlockingChannel], T]) -> T | ChannelClosedByBroker:
        """Act, and answer what comes of it; or the broker's refusal."""
        try:
            if self._channel is None or not self._channel.is_open:
                self._channel = self._connection.channel()
            return act(self._channel)
        except ChannelClosedByBroker as refusal:
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

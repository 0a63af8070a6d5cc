"""pika's blocking connections: let go of for certain, and asked although a refusal costs them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from cronhare.domain.topology import Binding, Exchange, Queue

from ..wire.asking import ArgumentsOf, Bind, Look, Losses, Make, Question, Refused
from .address import Address
from .errors import TROUBLE, resolving

T = TypeVar("T")


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


class TopologyClient:
    """One walk through a topology. What the broker refuses costs the walk nothing but time."""

    def __init__(
        self, connecting: Callable[[], BlockingConnection], arguments_of: ArgumentsOf
    ) -> None:
        """Connect by *connecting*, and again after each question that cost the connection."""
        self.connection = connecting()
        self._connecting = connecting
        self._arguments_of = arguments_of
        self._channel: BlockingChannel | None = None
        self.losses = Losses()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the latest connection."""
        _let_go(self.connection)

    def answer(self, question: Question) -> Refused | None:
        """Put a question, and answer the broker's no, if it says so.

        Raises:
            Exception: see `ask`.
        """
        match question:
            case Look(thing):
                looked = self.look_at(thing)
                return looked if isinstance(looked, Refused) else None
            case Make(thing):
                return self.declare(thing)
            case Bind(binding):
                return self.ask(lambda channel: _bind(channel, binding))

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
            return _refused(refusal, costs_connection=False)
        except ConnectionClosedByBroker as refusal:
            if not self.losses.note(refusal.reply_code):
                raise
            return _refused(refusal, costs_connection=True)

    def _declare(self, channel: BlockingChannel, thing: Exchange | Queue) -> None:
        match thing:
            case Exchange(name=name, kind=kind, alternate=None):
                channel.exchange_declare(name, kind, durable=True)
            case Exchange(name=name, kind=kind, alternate=alternate):
                more = {"alternate-exchange": alternate}
                channel.exchange_declare(name, kind, durable=True, arguments=more)
            case Queue(name=name):
                channel.queue_declare(name, durable=True, arguments=self._arguments_of(thing))


def _bind(channel: BlockingChannel, binding: Binding) -> None:
    if binding.to_exchange:
        channel.exchange_bind(binding.target, binding.source, binding.key)
    else:
        channel.queue_bind(binding.target, binding.source, binding.key)


def _refused(
    error: ChannelClosedByBroker | ConnectionClosedByBroker, *, costs_connection: bool
) -> Refused:
    return Refused(
        code=error.reply_code,
        text=error.reply_text,
        costs_connection=costs_connection,
        cause=error,
    )

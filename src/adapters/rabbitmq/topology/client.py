"""The steps of declaring a topology, performed through pika."""

from collections.abc import Callable
from typing import Any, Self

from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from cronhare.domain.topology import Exchange, Queue

from ..connection.blocking import close_connection
from .steps import ArgumentsOf, Bind, ConnectionLosses, Declare, PassiveDeclare, Refused, Step


class TopologyClient:
    """Performs the steps of one pass. A refusal costs the pass nothing but time."""

    def __init__(
        self, connect: Callable[[], BlockingConnection], arguments_of: ArgumentsOf
    ) -> None:
        """Connect by *connect*, and again after each step that cost the connection."""
        self.connection = connect()
        self._connect = connect
        self._arguments_of = arguments_of
        self._channel: BlockingChannel | None = None
        self.losses = ConnectionLosses()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the latest connection."""
        close_connection(self.connection)

    def perform(self, step: Step) -> Refused | None:
        """Perform a step, and answer the broker's refusal, if there is one.

        Raises:
            Exception: see `ask`.
        """
        answer = self.ask(step)
        return answer if isinstance(answer, Refused) else None

    def ask(self, step: Step) -> Any | Refused:  # noqa: ANN401
        """Perform a step, and give pika's answer or the broker's refusal.

        Raises:
            Exception: what pika says (`PIKA_ERRORS`): the broker is away, or closes each
                connection.
        """
        if not self.connection.is_open:
            self.connection, self._channel = self._connect(), None
        try:
            if self._channel is None or not self._channel.is_open:
                self._channel = self.connection.channel()
            return self._put(self._channel, step)
        except (ChannelClosedByBroker, ConnectionClosedByBroker) as error:
            costs_connection = isinstance(error, ConnectionClosedByBroker)
            if costs_connection and not self.losses.note(error.reply_code):
                raise
            return Refused(
                code=error.reply_code,
                text=error.reply_text,
                costs_connection=costs_connection,
                cause=error,
            )

    def _put(self, channel: BlockingChannel, step: Step) -> Any:  # noqa: ANN401
        match step:
            case PassiveDeclare(Exchange(name=name)):
                return channel.exchange_declare(name, passive=True)
            case PassiveDeclare(Queue(name=name)):
                return channel.queue_declare(name, passive=True)
            case Declare(Exchange(name=name, kind=kind, alternate=alternate)):
                more = {} if alternate is None else {"alternate-exchange": alternate}
                return channel.exchange_declare(name, kind, durable=True, arguments=more)
            case Declare(Queue() as queue):
                arguments = self._arguments_of(queue)
                return channel.queue_declare(queue.name, durable=True, arguments=arguments)
            case Bind(binding) if binding.to_exchange:
                return channel.exchange_bind(
                    binding.target, binding.source, binding.key, arguments=dict(binding.headers)
                )
            case Bind(binding):
                return channel.queue_bind(
                    binding.target, binding.source, binding.key, arguments=dict(binding.headers)
                )

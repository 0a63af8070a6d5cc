"""The steps of declaring a topology, performed through aio-pika."""

import asyncio
from typing import Final, cast

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPChannelError, AMQPError, ConnectionClosed
from pamqp.common import FieldTable
from pika import spec

from cronhare.domain.topology import Exchange, Queue

from ..connection.address import Address
from ..connection.async_connection import (
    ANSWER_TIMEOUT,
    FramedConnection,
    close_connection,
    open_connection,
)
from .steps import ArgumentsOf, Bind, ConnectionLosses, Declare, PassiveDeclare, Refused, Step

#: aio-pika does not give AMQP's reply codes, and RabbitMQ's words begin with their names.
_CODES: Final[dict[str, int]] = {
    "ACCESS_REFUSED": spec.ACCESS_REFUSED,
    "CONNECTION_FORCED": spec.CONNECTION_FORCED,
    "NOT_FOUND": spec.NOT_FOUND,
    "PRECONDITION_FAILED": spec.PRECONDITION_FAILED,
    "RESOURCE_LOCKED": spec.RESOURCE_LOCKED,
}


class AsyncTopologyClient:
    """Performs the steps of one pass. A refusal costs the pass nothing but time."""

    def __init__(self, address: Address, arguments_of: ArgumentsOf) -> None:
        """Connect with the first step, and again after each that cost the connection."""
        self.losses = ConnectionLosses()
        self._address = address
        self._arguments_of = arguments_of
        self._connection: FramedConnection | None = None
        self._channel: AbstractChannel | None = None

    async def perform(self, step: Step) -> Refused | None:
        """Perform a step, and answer the broker's refusal, if there is one.

        Raises:
            BrokerUnavailable: the broker is away.
            Exception: what aio-pika says (`AIO_PIKA_ERRORS`): it does not answer, or closes each
                connection.
        """
        channel = await self._opened()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._put(channel, step)
        except AMQPChannelError as error:
            self._channel = None
            return _refused(error, costs_connection=False)
        except ConnectionClosed as error:
            await self.close()
            refused = _refused(error, costs_connection=True)
            if not self.losses.note(refused.code):
                raise
            return refused
        return None

    async def close(self) -> None:
        """Close the latest connection."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            await close_connection(connection)

    async def _opened(self) -> AbstractChannel:
        if self._connection is None:
            self._connection = await open_connection(self._address, name="cronhare declaring")
        if self._channel is None:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                self._channel = await self._connection.channel(publisher_confirms=False)
        return self._channel

    async def _put(self, channel: AbstractChannel, step: Step) -> None:
        match step:
            case PassiveDeclare(Exchange(name=name)):
                await channel.get_exchange(name)
            case PassiveDeclare(Queue(name=name)):
                await channel.get_queue(name)
            case Declare(Exchange(name=name, kind=kind, alternate=alternate)):
                more: FieldTable = {} if alternate is None else {"alternate-exchange": alternate}
                await channel.declare_exchange(name, kind, durable=True, arguments=more)
            case Declare(Queue() as wanted):
                arguments = cast("FieldTable", self._arguments_of(wanted))
                await channel.declare_queue(wanted.name, durable=True, arguments=arguments)
            case Bind(binding) if binding.to_exchange:
                exchange = await channel.get_exchange(binding.target, ensure=False)
                await exchange.bind(binding.source, binding.key, arguments=dict(binding.headers))
            case Bind(binding):
                queue = await channel.get_queue(binding.target, ensure=False)
                await queue.bind(binding.source, binding.key, arguments=dict(binding.headers))


def _refused(error: AMQPError, *, costs_connection: bool) -> Refused:
    text = str(error.args[-1]) if error.args else type(error).__name__
    code = _CODES.get(text.partition(" ")[0], 0)
    return Refused(code=code, text=text, costs_connection=costs_connection, cause=error)

"""Declaring the topology through aio-pika, for the asynchronous side."""

import asyncio
from functools import partial
from typing import Final, cast

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPChannelError, AMQPError, ConnectionClosed
from pamqp.common import FieldTable

from cronhare.domain.topology import Binding, Exchange, Queue, Topology

from ..connection.address import Address
from ..connection.errors import unconnected
from ..connection.framed import FramedConnection
from ..connection.linking import ANSWER_TIMEOUT, close_connection, open_connection, translate_errors
from ..wire.asking import (
    ACCESS_REFUSED,
    CONNECTION_FORCED,
    LOCKED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    ArgumentsOf,
    Bind,
    Look,
    Losses,
    Make,
    Question,
    Refused,
)
from ..wire.versions import QUORUM, arguments
from .declaration import Declared, declaration

#: The client keeps AMQP's codes to itself, and RabbitMQ's words begin with their names.
_CODES: Final = {
    "ACCESS_REFUSED": ACCESS_REFUSED,
    "CONNECTION_FORCED": CONNECTION_FORCED,
    "NOT_FOUND": NOT_FOUND,
    "PRECONDITION_FAILED": PRECONDITION_FAILED,
    "RESOURCE_LOCKED": LOCKED,
}


async def declare(
    address: Address,
    topology: Topology,
    *,
    queue_type: str = QUORUM,
    deduplication: bool = False,
) -> Declared:
    """Declare all that is not there yet, and tell what is there with other arguments, or refused.

    As the blocking `declaring.declare` does; each answer has `ANSWER_TIMEOUT`.

    Raises:
        BrokerUnavailable: the broker is away, or will not let us make an exchange that is missing.
    """
    arguments_of = partial(arguments, queue_type=queue_type, deduplication=deduplication)
    walk = AsyncWalk(address, arguments_of)
    steps = declaration(topology, vhost=address.vhost, losses=walk.losses)
    step = next(steps)
    try:
        while not isinstance(step, Declared):
            with translate_errors(f"declaring at {address}", unconnected):
                refused = await walk.answer(step)
            step = steps.send(refused)
    finally:
        await walk.close()
    return step


class AsyncWalk:
    """One walk through a topology. What the broker refuses costs the walk nothing but time."""

    def __init__(self, address: Address, arguments_of: ArgumentsOf) -> None:
        """Connect with the first question, and again after each that cost the connection."""
        self.losses = Losses()
        self._address = address
        self._arguments_of = arguments_of
        self._connection: FramedConnection | None = None
        self._channel: AbstractChannel | None = None

    async def answer(self, question: Question) -> Refused | None:
        """Put a question, and answer the broker's no, if it says so.

        Raises:
            BrokerUnavailable: it is away.
            Exception: what the client says (`TROUBLE`): it does not answer, or closes each
                connection.
        """
        channel = await self._opened()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._put(channel, question)
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

    async def _put(self, channel: AbstractChannel, question: Question) -> None:
        match question:
            case Look(Exchange(name=name)):
                await channel.get_exchange(name)
            case Look(Queue(name=name)):
                await channel.get_queue(name)
            case Make(Exchange() as exchange):
                more: FieldTable = {}
                if exchange.alternate is not None:
                    more["alternate-exchange"] = exchange.alternate
                await channel.declare_exchange(
                    exchange.name, exchange.kind, durable=True, arguments=more
                )
            case Make(Queue() as queue):
                wanted = cast("FieldTable", self._arguments_of(queue))
                await channel.declare_queue(queue.name, durable=True, arguments=wanted)
            case Bind(binding):
                await _bind(channel, binding)


async def _bind(channel: AbstractChannel, binding: Binding) -> None:
    if binding.to_exchange:
        exchange = await channel.get_exchange(binding.target, ensure=False)
        await exchange.bind(binding.source, binding.key)
    else:
        queue = await channel.get_queue(binding.target, ensure=False)
        await queue.bind(binding.source, binding.key)


def _refused(error: AMQPError, *, costs_connection: bool) -> Refused:
    text = str(error.args[-1]) if error.args else type(error).__name__
    code = _CODES.get(text.partition(" ")[0], 0)
    return Refused(code=code, text=text, costs_connection=costs_connection, cause=error)

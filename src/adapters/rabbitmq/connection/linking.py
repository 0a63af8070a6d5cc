"""Opening aio-pika's connections: plain ones, each for one purpose.

Not the robust ones: after a reconnect they can look open and consume nothing for ever.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import aio_pika
from aio_pika.exceptions import AMQPError

from cronhare.domain.addresses import Host
from cronhare.ports.broker import BrokerUnavailable

from .address import CONNECT_TIMEOUT, Address
from .errors import resolving, said_by, unconnected
from .framed import FramedConnection

#: What the client raises when the broker is away, refuses, or has gone meanwhile. RuntimeError is
#: the parent of its "channel closed".
TROUBLE = (AMQPError, OSError, RuntimeError, TimeoutError)

#: Seconds in which the broker must have answered a question.
ANSWER_TIMEOUT = 10.0


async def open_connection(
    address: Address, *, name: str, kind: type[FramedConnection] = FramedConnection
) -> FramedConnection:
    """Connect to the first node that answers, within a bound for each.

    Raises:
        BrokerUnavailable: it did not work; the text tells of the last node.
    """
    *others, last = address.nodes()
    for node in others:
        with suppress(BrokerUnavailable):
            return await _connect(address, node, name, kind, within=CONNECT_TIMEOUT)
    return await _connect(address, last, name, kind, within=2 * CONNECT_TIMEOUT)


async def _connect(
    address: Address, node: Host, name: str, kind: type[FramedConnection], *, within: float
) -> FramedConnection:
    with translate_errors(f"connecting to {address}", unconnected), resolving():
        # a certificate may be unreadable, and its file system may hang
        context = await asyncio.to_thread(address.context)
        async with asyncio.timeout(within):
            return await aio_pika.connect(
                address.for_aio_pika(node),
                connection_class=kind,
                ssl_context=context,
                client_properties={"connection_name": name},
            )


async def close_connection(connection: FramedConnection) -> None:
    """Say good-bye, within a bound."""
    with suppress(*TROUBLE):
        await connection.close()


@contextmanager
def translate_errors(doing: str, said: Callable[[BaseException], str] = said_by) -> Iterator[None]:
    """Turn the client's errors into ours, in the words of *said*.

    When a connection breaks, the client cancels what waits for it: only a cancellation that was
    meant for our own task goes on as one. And that one goes on even when the client dropped it:
    it waits by `asyncio.wait_for`, which in Python 3.11 forgets a cancellation that arrives
    together with the answer (python/cpython#86296).
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0

    def is_cancelled() -> bool:
        return task is not None and task.cancelling() > before

    try:
        yield
    except TROUBLE as error:
        raise BrokerUnavailable(f"{doing}: {said(error)}") from error
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise BrokerUnavailable(f"{doing}: the connection broke") from error
    if is_cancelled():
        raise asyncio.CancelledError

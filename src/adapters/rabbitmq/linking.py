"""Opening aiormq's connections: plain ones, each for one purpose.

Not the robust ones: after a reconnect they can look open and consume nothing for ever.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import aiormq
from aiormq.abc import AbstractConnection
from aiormq.connection import TransportFactory
from aiormq.exceptions import AMQPError

from cronhare.domain.addresses import Host
from cronhare.ports.broker import BrokerUnavailable

from .address import CONNECT_TIMEOUT, Address
from .framing import Framing
from .trouble import resolving, said_by, unconnected

#: What the client raises when the broker is away, refuses, or has gone meanwhile. RuntimeError is
#: the parent of its "channel closed".
TROUBLE = (AMQPError, OSError, RuntimeError, TimeoutError)

#: Seconds that are given to the broker's good-bye.
GOODBYE = 5.0


async def open_connection(
    address: Address, *, name: str, transport: TransportFactory | None = None
) -> AbstractConnection:
    """Connect to the first node that answers, within a bound for each.

    *transport* takes the place of `Framing`, if one is given.

    Raises:
        BrokerUnavailable: it did not work; the text tells of the last node.
    """
    *others, last = address.nodes()
    for node in others:
        with suppress(BrokerUnavailable):
            return await _connect(address, node, name, transport, within=CONNECT_TIMEOUT)
    return await _connect(address, last, name, transport, within=2 * CONNECT_TIMEOUT)


async def _connect(
    address: Address, node: Host, name: str, transport: TransportFactory | None, *, within: float
) -> AbstractConnection:
    doing = f"connecting to {address}"
    with own_errors(
        doing, unconnected
    ):  # a certificate may be unreadable, and its file system may hang
        context = await asyncio.to_thread(address.context)
    connection = aiormq.Connection(
        address.for_aiormq(node), context=context, transport_factory=transport or Framing()
    )
    try:
        with own_errors(doing, unconnected), resolving():
            async with asyncio.timeout(within):
                await connection.connect(client_properties={"connection_name": name})
    except BaseException:
        await close_connection(connection)
        raise
    return connection


async def close_connection(connection: AbstractConnection) -> None:
    """Say good-bye, within a bound."""
    with suppress(*TROUBLE):
        async with asyncio.timeout(GOODBYE):
            await connection.close()


@contextmanager
def own_errors(doing: str, said: Callable[[BaseException], str] = said_by) -> Iterator[None]:
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

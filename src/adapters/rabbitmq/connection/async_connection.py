"""aio-pika's connections: plain ones, each for one purpose, read through our own frame reader.

Not the robust ones: after a reconnect they can look open and consume nothing for ever.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar, cast

import aio_pika
from aio_pika.abc import TimeoutType
from aio_pika.exceptions import AMQPError, ConnectionClosed
from yarl import URL

from cronhare.domain.addresses import Host
from cronhare.domain.shutdown_times import FAREWELL
from cronhare.ports.broker import BrokerUnavailable

from ..wire.frames import TransportFactory
from .address import CONNECT_TIMEOUT, Address
from .errors import describe, resolving, why_unreachable

#: RuntimeError is the parent of aio-pika's "channel closed".
AIO_PIKA_ERRORS = (AMQPError, OSError, RuntimeError, TimeoutError)

#: Seconds within which the broker must answer a method.
ANSWER_TIMEOUT = 10.0


class LightChannel(aio_pika.Channel):
    """A channel that leaves nothing at its connection when it is closed."""

    async def close(self, exc: Any = None) -> None:  # noqa: ANN401, ARG002 - aio-pika's own
        """Close the channel beneath: aio-pika would keep 1 kB until the connection's end."""
        if self.is_initialized:
            underlay = await self.get_underlay_channel()
            await underlay.close()


class FramedConnection(aio_pika.Connection):
    """Connects once. When it is lost, another one is opened."""

    CHANNEL_CLASS = LightChannel

    def __init__(self, url: URL, **how: Any) -> None:  # noqa: ANN401 - aio-pika's own
        super().__init__(url, **how)
        self._transport_factory = self.kwargs["transport_factory"] = TransportFactory()

    async def connect(self, timeout: TimeoutType = None) -> None:  # noqa: ASYNC109 - aio-pika's own
        """Connect; where that fails, or is cancelled, nothing of it is left."""
        try:
            await super().connect(timeout)
        except BaseException:
            self._transport_factory.hang_up()
            await super().close()
            raise
        if self.transport is not None:
            beneath = cast("Any", _Beneath(self.transport.connection))
            self.transport = replace(self.transport, connection=beneath)

    async def close(self, exc: Any = ConnectionClosed) -> None:  # noqa: ANN401 - aio-pika's own
        """Close it; a broker that does not answer in time is hung up on."""
        with self.farewell():
            await super().close(exc)

    @contextmanager
    def farewell(self) -> Iterator[None]:
        """Hang up on a broker that does not answer all of it within `FAREWELL`.

        So is one for whose answer nobody waits any longer: else the client would, in a task of its
        own, and the process could not end before.
        """
        hanging_up = self.loop.call_later(FAREWELL, self._transport_factory.hang_up)
        try:
            yield
        except asyncio.CancelledError:
            self._transport_factory.hang_up()
            raise
        finally:
            hanging_up.cancel()


class _Beneath:
    """The connection beneath aio-pika's, whose end channels do not wait for.

    They are closed with it all the same. aio-pika 10.2 has each of them wait for both ends, and
    leaves that behind when it is closed: 4 kB each, with a channel for each liveness check.
    """

    def __init__(self, connection: object) -> None:
        self._connection = connection

    @property
    def closing(self) -> "asyncio.Future[None]":
        """A future that never ends, and is gone with whoever waits for it."""
        return asyncio.get_running_loop().create_future()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it has
        return getattr(self._connection, name)


Kind = TypeVar("Kind", bound=FramedConnection)


async def open_connection(address: Address, *, name: str) -> FramedConnection:
    """Connect to the first node that answers, within a bound for each.

    Raises:
        BrokerUnavailable: no node answers; the text is about the last one.
    """
    return await open_as(FramedConnection, address, name=name)


async def open_as(kind: type[Kind], address: Address, *, name: str) -> Kind:
    """Open a connection of this *kind*: see `open_connection`."""
    *others, last = address.nodes()
    for node in others:
        with suppress(BrokerUnavailable):
            return await _connect(address, node, name, kind, within=CONNECT_TIMEOUT)
    return await _connect(address, last, name, kind, within=2 * CONNECT_TIMEOUT)


async def _connect(
    address: Address, node: Host, name: str, kind: type[Kind], *, within: float
) -> Kind:
    with translate_errors(f"connecting to {address}", why_unreachable), resolving():
        # in a thread: the file system of a certificate may hang
        context = await asyncio.to_thread(address.context)
        async with asyncio.timeout(within):
            return await aio_pika.connect(
                address.for_aio_pika(node),
                connection_class=kind,
                ssl_context=context,
                client_properties={"connection_name": name},
            )


async def close_connection(connection: FramedConnection) -> None:
    """Close it, within a bound."""
    with suppress(*AIO_PIKA_ERRORS):
        await connection.close()


@contextmanager
def translate_errors(doing: str, said: Callable[[BaseException], str] = describe) -> Iterator[None]:
    """Turn aio-pika's errors into `BrokerUnavailable`, with the text of *said*.

    When a connection breaks, aio-pika cancels what waits for it: only a cancellation of our own
    task goes on as one. It goes on even where aio-pika dropped it: its `asyncio.wait_for` forgets,
    in Python 3.11, a cancellation that arrives together with the answer (python/cpython#86296).
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0

    def is_cancelled() -> bool:
        return task is not None and task.cancelling() > before

    try:
        yield
    except AIO_PIKA_ERRORS as error:
        raise BrokerUnavailable(f"{doing}: {said(error)}") from error
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise BrokerUnavailable(f"{doing}: the connection broke") from error
    except Exception as error:
        if type(error) is not Exception:
            raise
        # So aiormq refuses what is asked of a channel that was closed meanwhile without a reason.
        raise BrokerUnavailable(f"{doing}: the connection was closed") from error
    if is_cancelled():
        raise asyncio.CancelledError

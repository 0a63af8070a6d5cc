"""aio-pika's plain connection, over frames that we read first, and let go of for certain."""

import asyncio
from dataclasses import replace
from typing import Any, ClassVar, cast

import aio_pika
from aio_pika.abc import TimeoutType
from aio_pika.exceptions import ConnectionClosed
from yarl import URL

from ..wire.framing import Framing

#: Seconds that are given to the broker's good-bye.
GOODBYE = 5.0


class LightChannel(aio_pika.Channel):
    """A channel that leaves nothing at its connection when it is closed."""

    async def close(self, exc: Any = None) -> None:  # noqa: ANN401, ARG002 - aio-pika's own
        """Close the channel beneath: aio-pika would have 1 kB wait for the connection's end."""
        if self.is_initialized:
            underlay = await self.get_underlay_channel()
            await underlay.close()


class FramedConnection(aio_pika.Connection):
    """Connects once. When it is lost, another takes its place."""

    CHANNEL_CLASS = LightChannel
    framing: ClassVar[type[Framing]] = Framing

    def __init__(self, url: URL, **how: Any) -> None:  # noqa: ANN401 - aio-pika's own
        super().__init__(url, **how)
        self._framing = self.framing()
        self.kwargs["transport_factory"] = self._framing

    async def connect(self, timeout: TimeoutType = None) -> None:  # noqa: ASYNC109 - aio-pika's own
        """Connect; where that fails, or is cancelled, nothing of it is left."""
        try:
            await super().connect(timeout)
        except BaseException:
            self._framing.hang_up()
            await super().close()
            raise
        if self.transport is not None:
            beneath = cast("Any", _Beneath(self.transport.connection))
            self.transport = replace(self.transport, connection=beneath)

    async def close(self, exc: Any = ConnectionClosed) -> None:  # noqa: ANN401 - aio-pika's own
        """Say good-bye. Who does not answer it within `GOODBYE` is hung up on."""
        hanging_up = self.loop.call_later(GOODBYE, self._framing.hang_up)
        try:
            await super().close(exc)
        finally:
            hanging_up.cancel()


class _Beneath:
    """The connection beneath aio-pika's, which tells channels nothing of its end.

    They are ended with it all the same. aio-pika 10.2 has each of them wait for both ends, and
    leaves that behind when it is closed: 4 kB each, with a channel for each proof of life.
    """

    def __init__(self, connection: object) -> None:
        self._connection = connection

    @property
    def closing(self) -> "asyncio.Future[None]":
        """Promise what never comes; whoever does not wait any more takes it with him."""
        return asyncio.get_running_loop().create_future()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it has
        return getattr(self._connection, name)

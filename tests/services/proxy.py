"""A link between a client and a server that can be frozen: nothing is copied, nothing is closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Link:
    """What copies the bytes."""

    def __init__(self) -> None:
        self.connections = 0
        self._flows = asyncio.Event()
        self._flows.set()

    def freeze(self) -> None:
        """Copy nothing more, while both ends look open. New connections hang as well."""
        self._flows.clear()

    def thaw(self) -> None:
        """Go on where it stopped."""
        self._flows.set()

    async def copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Copy one direction until its end."""
        with suppress(OSError):
            while data := await source.read(65536):
                await self._flows.wait()
                target.write(data)
                await target.drain()
        target.close()


@asynccontextmanager
async def proxy(port: int, *, listen: int = 0) -> AsyncIterator[tuple[int, Link]]:
    """Listen on a port of our own, any unless *listen* names it, and pass all on to *port*."""
    link = Link()
    copying: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link.connections += 1
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        for source, target in ((reader, server_writer), (server_reader, writer)):
            copying.add(asyncio.create_task(link.copy(source, target)))

    server = await asyncio.start_server(accept, "127.0.0.1", listen)
    try:
        yield server.sockets[0].getsockname()[1], link
    finally:
        link.thaw()
        server.close()
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)

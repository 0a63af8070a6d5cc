"""A link between a client and a server that can be frozen, in silence, or cut."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress


class Link:
    """What copies the bytes. Any thread may hurt it."""

    def __init__(self) -> None:
        self.connections = 0
        self.held_back = 0
        self.freezes_at: bytes | None = None  # before this passes
        self._loop = asyncio.get_running_loop()
        self._flows = asyncio.Event()
        self._flows.set()
        self._ends: set[asyncio.StreamWriter] = set()

    def freeze(self) -> None:
        """Copy nothing more, while both ends look open. New connections hang as well."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def thaw(self) -> None:
        """Go on where it stopped."""
        self._loop.call_soon_threadsafe(self._flows.set)

    def cut(self) -> None:
        """Break all connections, and lose what is on its way. New ones are welcome."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for end in self._ends:
            end.transport.abort()

    async def copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        self._ends.add(target)
        try:
            with suppress(OSError):
                while data := await source.read(65536):
                    if self.freezes_at is not None and self.freezes_at in data:
                        self._flows.clear()
                    self.held_back += not self._flows.is_set()
                    await self._flows.wait()
                    target.write(data)
                    await target.drain()
                await self._flows.wait()
        finally:
            self._ends.discard(target)
            target.close()


@asynccontextmanager
async def proxy(port: int, *, listen: int = 0) -> AsyncIterator[tuple[int, Link]]:
    """Listen on a port of our own, any unless *listen* names it, and pass all on to *port*."""
    link = Link()
    copying: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link.connections += 1
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # nobody is there: the client hears so
            writer.close()
            return
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


@contextmanager
def proxy_in_thread(port: int) -> Iterator[tuple[int, Link]]:
    standing: Future[tuple[int, Link]] = Future()
    leave = threading.Event()

    async def stand() -> None:
        async with proxy(port) as place:
            standing.set_result(place)
            await asyncio.to_thread(leave.wait)

    thread = threading.Thread(target=lambda: asyncio.run(stand()), name="proxy", daemon=True)
    thread.start()
    try:
        yield standing.result(timeout=10)
    finally:
        leave.set()
        thread.join()

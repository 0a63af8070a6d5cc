"""Keeping the wanted topology there: declared at the start and after each loss."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from cronhare.ports.broker import BrokerUnavailable

from ..connection.address import Address
from .async_declaring import declare
from .declaration import Declared
from .wanted import WantedTopology


class AsyncTopologyDeclarer:
    """Declares what is *wanted*, as often as asked."""

    def __init__(self, address: Address, wanted: WantedTopology) -> None:
        """Nothing is declared yet."""
        self._address = address
        self._wanted = wanted
        self._declaring = asyncio.Lock()

    async def refresh(self) -> None:
        """See `TopologyDeclarer.refresh`."""
        async with self._declaring:
            if not self._wanted.is_fresh:
                await self._declare()

    async def restore(self, queues: Iterable[str]) -> None:
        """See `TopologyDeclarer.restore`."""
        if any(map(self._wanted.knows, queues)):
            with suppress(BrokerUnavailable):
                await self.refresh()

    async def declare(self) -> None:
        """See `TopologyDeclarer.declare`."""
        async with self._declaring:
            found = await self._declare()
        found.check()

    async def _declare(self) -> Declared:
        wanted = self._wanted
        topology, began = wanted.topology, wanted.now()
        found = await declare(
            self._address,
            topology,
            queue_type=wanted.queue_type,
            deduplication=wanted.deduplication,
        )
        wanted.note(topology, found, began=began)
        return found

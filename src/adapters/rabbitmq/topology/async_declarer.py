"""Declaring the desired topology through aio-pika: `declarer` for an event loop."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress

from cronhare.ports.broker import BrokerUnavailable

from ..connection.address import Address
from ..connection.async_connection import translate_errors
from ..connection.errors import why_unreachable
from .async_client import AsyncTopologyClient
from .declaration import Declared, declaration
from .desired import DesiredTopology


class AsyncTopologyDeclarer:
    """See `TopologyDeclarer`; each step has `ANSWER_TIMEOUT`."""

    def __init__(self, address: Address, desired: DesiredTopology) -> None:
        """Nothing is declared yet."""
        self._address = address
        self._desired = desired
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        async with self._lock:
            if not self._desired.is_fresh:
                await self._declare()

    async def restore(self, queues: Iterable[str]) -> None:
        if any(map(self._desired.includes, queues)):
            with suppress(BrokerUnavailable):
                await self.refresh()

    async def declare(self) -> None:
        async with self._lock:
            found = await self._declare()
        found.check()

    async def _declare(self) -> Declared:
        desired = self._desired
        topology, began = desired.topology, time.monotonic()
        client = AsyncTopologyClient(self._address, desired.arguments_of)
        steps = declaration(topology, vhost=self._address.vhost, losses=client.losses)
        step = next(steps)
        try:
            while not isinstance(step, Declared):
                with translate_errors(f"declaring at {self._address}", why_unreachable):
                    refused = await client.perform(step)
                step = steps.send(refused)
        finally:
            await client.close()
        desired.note(topology, step, began=began)
        return step

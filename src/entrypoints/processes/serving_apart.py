"""Serving queues beside those of a worker while it runs: each has a place of its own."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine
from concurrent.futures import Future

from cronhare.application.heartbeat import Heartbeat
from cronhare.application.worker.places import Places

from ..signals.shutdown import Shutdown
from .consuming import WorkerConsumer

log = logging.getLogger(__name__)


class ServingApart:
    """Lets one other thread have queues served, and left, in the worker's event loop.

    What is served is reported, with its place.
    """

    def __init__(
        self, *, consumer: WorkerConsumer, places: Places, heartbeat: Heartbeat, shutdown: Shutdown
    ) -> None:
        """Make it in the worker's event loop."""
        self._consumer = consumer
        self._places = places
        self._heartbeat = heartbeat
        self._shutdown = shutdown
        self._loop = asyncio.get_running_loop()
        self._beginning: dict[str, asyncio.Task[None]] = {}
        #: One that is left may be asked for again before it has been: each thing in its turn.
        self._turns = defaultdict[str, asyncio.Lock](asyncio.Lock)

    def serve(self, queue: str) -> None:
        """Have a queue served, once the broker gives it."""
        self._places.apart |= {queue}
        self._report((*self._heartbeat.queues, queue))
        self._in_loop(self._begin(queue))

    def leave(self, queue: str) -> None:
        """Have it served no more; what is at hand of it goes on."""
        self._places.apart -= {queue}
        self._report(tuple(each for each in self._heartbeat.queues if each != queue))
        self._in_loop(self._end(queue))

    def _in_loop(self, doing: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).add_done_callback(_log_fault)

    def _report(self, queues: tuple[str, ...]) -> None:
        self._heartbeat.queues, self._heartbeat.concurrency = queues, self._places.count

    async def _begin(self, queue: str) -> None:
        async with self._turns[queue]:
            begun = self._consumer.begin_apart(queue, shutdown=self._shutdown)
            self._beginning[queue] = asyncio.create_task(begun, name=f"serving {queue}")
            self._beginning[queue].add_done_callback(_log_fault)

    async def _end(self, queue: str) -> None:
        async with self._turns[queue]:
            beginning = self._beginning.pop(queue)
            beginning.cancel()  # it may still wait, as the worker rests
            await asyncio.wait({beginning})
            await self._consumer.leave(queue)


def _log_fault(done: "Future[None] | asyncio.Task[None]") -> None:
    """Nobody waits for it."""
    if not done.cancelled() and (fault := done.exception()) is not None:
        text = "Serving a queue apart met a fault of ours"
        log.error("%s", text, exc_info=fault, extra={"action": "fault"})

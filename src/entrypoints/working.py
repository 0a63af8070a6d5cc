"""A worker process's life: consume, keep leases, drain."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta

from cronhare.application.execute import Worker
from cronhare.application.logs import say
from cronhare.application.monitor import FailedMonitor
from cronhare.domain.topology import FAILED_QUEUE
from cronhare.ports.broker import AsyncBrokerPort, Delivery
from cronhare.ports.runner import StopReason, TaskRunnerPort

log = logging.getLogger(__name__)


class UnderWay:
    """The deliveries that are being handled, each in a task of its own."""

    def __init__(self, handle: Callable[[Delivery], Coroutine[None, None, None]]) -> None:
        """*handle* brings a delivery to its end."""
        self._handle = handle
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Count them."""
        return len(self._tasks)

    def accept(self, delivery: Delivery) -> None:
        """Begin to handle a delivery."""
        task = asyncio.create_task(self._handle(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def settled(self) -> None:
        """Wait until all that was accepted so far has come to its end."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("A delivery met a fault of ours", exc_info=fault, extra={"action": "fault"})


class Working:
    """Hands deliveries to the worker, and ends in good order."""

    def __init__(self, *, broker: AsyncBrokerPort, worker: Worker, runner: TaskRunnerPort) -> None:
        """All of it runs in one event loop."""
        self._broker = broker
        self._worker = worker
        self._runner = runner
        self._under_way = UnderWay(worker.handle)

    async def begin(self, queues: Sequence[str], *, concurrency: int) -> None:
        """Start to consume: as many deliveries at a time as may run at a time."""
        await self._broker.consume(queues, prefetch=concurrency, on_delivery=self._under_way.accept)

    async def drain(self, *, grace: timedelta, hurry: asyncio.Event) -> None:
        """Give back what has not begun, let the rest finish within *grace*, then end it.

        *hurry* skips the wait.
        """
        self._worker.drain()
        await self._broker.pause()
        if self._under_way and not hurry.is_set():
            text = (
                f"Waiting at most {grace.total_seconds():.0f} s for what runs "
                f"({len(self._under_way)}); a second signal ends it at once"
            )
            say(log, logging.INFO, "shutdown.wait", text)
            await self._settled(grace, hurry)
        for execution_id in self._worker.running:
            self._runner.stop(execution_id, StopReason.INTERRUPTED)
        await self._under_way.settled()
        await self._runner.close()
        await self._broker.close()

    async def _settled(self, grace: timedelta, hurry: asyncio.Event) -> None:
        waits = [
            asyncio.create_task(hurry.wait(), name="hurry"),
            asyncio.create_task(self._under_way.settled(), name="settled"),
        ]
        await asyncio.wait(
            waits, timeout=grace.total_seconds(), return_when=asyncio.FIRST_COMPLETED
        )
        for each in waits:
            each.cancel()


class Monitoring:
    """Watches the failed queue, one message at a time."""

    def __init__(self, *, broker: AsyncBrokerPort, monitor: FailedMonitor) -> None:
        """*broker* is a connection of its own, so that a busy worker does not delay the news."""
        self._broker = broker
        self._under_way = UnderWay(monitor.handle)

    async def begin(self) -> None:
        """Start to watch."""
        await self._broker.consume([FAILED_QUEUE], prefetch=1, on_delivery=self._under_way.accept)

    async def end(self) -> None:
        """Finish what was begun, and stop."""
        await self._broker.pause()
        await self._under_way.settled()
        await self._broker.close()

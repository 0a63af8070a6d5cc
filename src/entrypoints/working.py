"""A worker process's life: consume, keep leases, drain."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

from cronhare.application.execute import Worker
from cronhare.application.logs import say
from cronhare.application.monitor import FailedMonitor
from cronhare.domain.topology import FAILED_QUEUE
from cronhare.ports.broker import AsyncBrokerPort, Delivery
from cronhare.ports.runner import StopReason, TaskRunnerPort

log = logging.getLogger(__name__)


class Working:
    """Hands deliveries to the worker, and ends in good order."""

    def __init__(self, *, broker: AsyncBrokerPort, worker: Worker, runner: TaskRunnerPort) -> None:
        """All of it runs in one event loop."""
        self._broker = broker
        self._worker = worker
        self._runner = runner
        self._under_way: set[asyncio.Task[None]] = set()

    async def begin(self, queues: Sequence[str], *, concurrency: int) -> None:
        """Start to consume: as many deliveries at a time as may run at a time."""
        await self._broker.consume(queues, prefetch=concurrency, on_delivery=self._accept)

    def _accept(self, delivery: Delivery) -> None:
        task = asyncio.create_task(self._worker.handle(delivery))
        self._under_way.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        _tell_fault(task)

    async def drain(self, *, grace: timedelta, hurry: asyncio.Event) -> None:
        """Give back what has not begun, let the rest finish within *grace*, then end it.

        *hurry* skips the wait.
        """
        self._worker.drain()
        await self._broker.pause()
        if self._under_way and not hurry.is_set():
            text = (
                f"Waiting for {len(self._under_way)} running tasks, at most "
                f"{grace.total_seconds():.0f} s; a second signal ends them at once"
            )
            say(log, logging.INFO, "shutdown.wait", text)
            await self._settled(grace, hurry)
        for execution_id in self._worker.running:
            self._runner.stop(execution_id, StopReason.INTERRUPTED)
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._runner.close()
        await self._broker.close()

    async def _settled(self, grace: timedelta, hurry: asyncio.Event) -> None:
        waits = [
            asyncio.create_task(hurry.wait(), name="hurry"),
            asyncio.create_task(asyncio.wait(self._under_way), name="settled"),
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
        self._monitor = monitor
        self._under_way: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """Start to watch."""
        await self._broker.consume([FAILED_QUEUE], prefetch=1, on_delivery=self._accept)

    def _accept(self, delivery: Delivery) -> None:
        task = asyncio.create_task(self._monitor.handle(delivery))
        self._under_way.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        _tell_fault(task)

    async def end(self) -> None:
        """Finish what was begun, and stop."""
        await self._broker.pause()
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._broker.close()


def _tell_fault(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("A delivery met a fault of ours", exc_info=fault, extra={"action": "fault"})

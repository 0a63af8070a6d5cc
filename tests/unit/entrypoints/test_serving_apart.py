"""Queues that are served beside those of a worker."""

import asyncio
from types import SimpleNamespace
from typing import Any

import attrs

from cronhare.application.worker.delivery import Places
from cronhare.entrypoints.processes.consuming import ServingApart


@attrs.define
class Slow:
    """A consumer as brokers are: what is consumed already is not consumed twice."""

    consumed: set[str] = attrs.field(factory=set[str])
    calls: asyncio.Queue[str] = attrs.field(factory=asyncio.Queue[str])

    async def begin_apart(self, queue: str) -> None:
        self.consumed.add(queue)
        self.calls.put_nowait("begin")

    async def leave(self, queue: str) -> None:
        await asyncio.sleep(0)
        self.consumed.discard(queue)
        self.calls.put_nowait("leave")


def serving_by(consumer: Any) -> ServingApart:  # noqa: ANN401
    heartbeat: Any = SimpleNamespace(queues=("mails",), concurrency=1)
    return ServingApart(consumer=consumer, places=Places(1), heartbeat=heartbeat)


async def test_what_is_served_again_before_it_has_been_left_is_consumed() -> None:
    slow = Slow()
    serving = serving_by(slow)
    serving.serve("pump")
    async with asyncio.timeout(30):
        calls = [await slow.calls.get()]
        serving.leave("pump")
        serving.serve("pump")
        calls += [await slow.calls.get(), await slow.calls.get()]

    assert calls == ["begin", "leave", "begin"]
    assert slow.consumed == {"pump"}

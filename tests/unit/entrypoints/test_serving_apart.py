"""Queues that are served beside those of a worker."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from cronhare.application.worker.places import Places
from cronhare.entrypoints.processes import consuming
from cronhare.entrypoints.processes.consuming import ServingApart


@attrs.define
class Consumer:
    """A consumer that is broken."""

    async def begin_apart(self, queue: str, **_how: Any) -> None:  # noqa: ANN401
        raise RuntimeError(f"no {queue}")

    async def leave(self, queue: str) -> None:
        raise RuntimeError(f"no leave of {queue}")


@attrs.define
class Slow:
    """A consumer as brokers are: what is consumed already is not consumed twice."""

    consumed: set[str] = attrs.field(factory=set[str])
    calls: asyncio.Queue[str] = attrs.field(factory=asyncio.Queue[str])

    async def begin_apart(self, queue: str, **_how: Any) -> None:  # noqa: ANN401
        self.consumed.add(queue)
        self.calls.put_nowait("begin")

    async def leave(self, queue: str) -> None:
        await asyncio.sleep(0)
        self.consumed.discard(queue)
        self.calls.put_nowait("leave")


def serving_by(consumer: Any) -> ServingApart:  # noqa: ANN401
    parts: dict[str, Any] = {
        "heartbeat": SimpleNamespace(queues=("mails",), concurrency=1),
        "shutdown": None,
    }
    return ServingApart(consumer=consumer, places=Places(1), **parts)


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


@pytest.mark.parametrize(
    ("does", "fault"), [("serve", "no pump"), ("leave", "'pump'"), ("both", "no leave of pump")]
)
async def test_a_fault_of_ours_that_nobody_waits_for_is_logged(
    does: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serving_by(Consumer())
    told = asyncio.Queue[str]()

    def error(*_text: str, exc_info: Exception, extra: Mapping[str, str]) -> None:
        assert extra == {"action": "fault"}
        told.put_nowait(str(exc_info))

    monkeypatch.setattr(consuming.log, "error", error)
    if does != "leave":
        await asyncio.to_thread(serving.serve, "pump")
    if does != "serve":
        await asyncio.to_thread(serving.leave, "pump")

    async with asyncio.timeout(30):
        while await told.get() != fault:
            pass

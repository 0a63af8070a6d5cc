"""How many deliveries a worker takes at a time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.processes.consuming import WorkerConsumer
from cronhare.entrypoints.signals import ForcedExit, Shutdown
from tests.unit.application.deliveries import due
from tests.unit.application.house import House
from tests.unit.application.waiting import open_room


async def consumer_of(house: House) -> WorkerConsumer:
    return WorkerConsumer(
        broker=house.connection,
        worker=house.worker,
        room=(await open_room(house)).room,
        runner=house.runner,
        keeper=house.keeper,
        shutdown=Shutdown(ForcedExit(grace=0)),
    )


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_no_more_messages_are_at_hand_than_may_run_at_a_time(concurrency: int) -> None:
    house = House(holds=True)
    house.add("one", schedule="1 12 2 3 *")
    house.add("other", schedule="1 12 2 3 *")
    due(house)
    consumer = await consumer_of(house)

    assert await consumer.begin([MAIN_QUEUE], {}, concurrency=concurrency)
    await house.settle()

    assert consumer.at_hand == concurrency
    assert house.broker.depth(MAIN_QUEUE) == 3 - concurrency


@pytest.mark.parametrize("asked", ["before", "meanwhile"])
async def test_who_is_drained_before_its_broker_is_there_takes_nothing_until_it_is_taken_back(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(holds=True)
    house.add("one", schedule="1 12 2 3 *")
    due(house)
    consumer = await consumer_of(house)
    consume, answers, asks = house.connection.consume, asyncio.Event(), asyncio.Event()

    async def slowly(queues: Sequence[str], **how: Any) -> None:  # noqa: ANN401
        asks.set()
        await answers.wait()
        await consume(queues, **how)

    monkeypatch.setattr(house.connection, "consume", slowly)
    if asked == "before":
        await consumer.rest()
    beginning = asyncio.create_task(consumer.begin([MAIN_QUEUE], {}, concurrency=1))
    if asked == "meanwhile":
        await asks.wait()
        await consumer.rest()
    answers.set()
    await house.settle()
    drained = consumer.rests, consumer.at_hand
    await consumer.resume()
    begun = await beginning
    await house.settle()

    assert drained == (True, 0)
    assert (begun, consumer.rests, consumer.at_hand) == (True, False, 1)


async def test_a_worker_that_is_taken_back_with_tasks_in_hand_runs_no_more_at_a_time() -> None:
    house = House(holds=True)
    for name in ("one", "other"):
        house.add(name, schedule="1 12 2 3 *")
    due(house)
    consumer = await consumer_of(house)
    assert await consumer.begin([MAIN_QUEUE], {}, concurrency=1)
    await house.settle()

    for _ in range(2):
        await consumer.rest()
        await consumer.resume()
    await house.settle()

    assert consumer.at_hand == 1
    assert not consumer.rests

"""How many deliveries a worker takes at a time."""

import pytest

from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.processes.consuming import WorkerConsumer
from cronhare.entrypoints.signals.forced_exit import ForcedExit
from cronhare.entrypoints.signals.shutdown import Shutdown
from tests.unit.application.deliveries import due
from tests.unit.application.house import House
from tests.unit.application.waiting import open_room


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_no_more_messages_are_at_hand_than_may_run_at_a_time(concurrency: int) -> None:
    house = House(holds=True)
    house.add("one", schedule="1 12 2 3 *")
    house.add("other", schedule="1 12 2 3 *")
    due(house)
    consumer = WorkerConsumer(
        broker=house.connection,
        worker=house.worker,
        room=(await open_room(house)).room,
        runner=house.runner,
        keeper=house.keeper,
    )

    shutdown = Shutdown(ForcedExit(grace=0))
    assert await consumer.begin([MAIN_QUEUE], {}, concurrency=concurrency, shutdown=shutdown)
    await house.settle()

    assert consumer.at_hand == concurrency
    assert house.broker.depth(MAIN_QUEUE) == 3 - concurrency


async def test_a_worker_that_is_taken_back_with_tasks_in_hand_runs_no_more_at_a_time() -> None:
    house = House(holds=True)
    for name in ("one", "other"):
        house.add(name, schedule="1 12 2 3 *")
    due(house)
    consumer = WorkerConsumer(
        broker=house.connection,
        worker=house.worker,
        room=(await open_room(house)).room,
        runner=house.runner,
        keeper=house.keeper,
    )
    shutdown = Shutdown(ForcedExit(grace=0))
    assert await consumer.begin([MAIN_QUEUE], {}, concurrency=1, shutdown=shutdown)
    await house.settle()

    for _ in range(2):
        await consumer.rest()
        await consumer.resume()
    await house.settle()

    assert consumer.at_hand == 1
    assert not consumer.rests

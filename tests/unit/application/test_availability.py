"""How a worker knows an outage from a long queue."""

from datetime import datetime
from typing import Any

import pytest

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.retry_limits import CatchUp
from cronhare.domain.retries.limits import BudgetPolicy, RetryLimits
from cronhare.domain.topology import MAIN_QUEUE
from tests.actors import ADA
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import MINUTE, SECOND, failure, one_by_one
from tests.unit.application.house import House

TWO_A_MINUTE = RetryLimits(budget=BudgetPolicy(most=2))


async def after_an_outage(limits: RetryLimits) -> House:
    """Let five runs fail, whose retries come due while no worker is there; then one begins."""
    house = House(script=one_by_one([failure()] * 5))
    for number in range(5):
        house.add(f"report-{number}", schedule="1 12 2 3 *")
    await house.open()
    house.dispatcher.tick(house.now)
    await house.turn(MINUTE)
    assert {one.state for one in house.executions()} == {State.RETRYING}
    await house.connection.close()
    house.clock.advance(60 * MINUTE)
    house.limits = limits
    await house.restart_worker()
    return house


async def test_a_delivery_of_a_queue_apart_takes_no_place_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(places=1, apart=frozenset({"apart"}), holds=True, limits=TWO_A_MINUTE)
    free_at: list[datetime] = []
    start = house.attempts.start

    def noting(*args: Any, catch_up: CatchUp, **asked: Any) -> Any:  # noqa: ANN401
        free_at.append(catch_up.free_at)
        return start(*args, catch_up=catch_up, **asked)

    monkeypatch.setattr(house.attempts, "start", noting)
    house.add("kept", schedule=None, queue="apart")
    house.add("other", schedule=None)
    for queue in ("apart", MAIN_QUEUE):
        await house.connection.consume([queue], prefetch=1, on_delivery=house.begin)

    for name in ("kept", "other"):
        house.administrator.run_now(name, params=None, actor=ADA)
        await house.turn(5 * SECOND)
        await house.settle()

    assert len(house.executions(State.RUNNING)) == 2
    assert free_at == [house.start, house.start + 10 * SECOND]


async def test_retries_that_waited_for_a_worker_start_as_the_budget_has_places(
    lines: Lines,
) -> None:
    house = await after_an_outage(TWO_A_MINUTE)
    started = []
    for _ in range(130):
        house.reconciler.tick(house.now)
        await house.work()
        started.append(len(house.executions(State.SUCCEEDED)))
        house.clock.advance(SECOND)

    assert (started[0], started[58], started[61], started[-1]) == (2, 2, 3, 5)
    assert [one.deaths for one in house.executions()] == [1] * 5
    assert len([line for line in lines() if "An outage held up retries" in line]) == 1
    assert house.worker.counters.deferred == 3

"""Runs that wait for a place, in a whole system: whoever ends one lets the next one go."""

from datetime import timedelta

import pytest

from cronhare.domain.execution import State
from cronhare.domain.schedules.schedule import Concurrency
from tests.unit.application.house import House

MINUTE = timedelta(minutes=1)
ONE_AT_A_TIME = Concurrency(key="customer-42", limit=1)


async def due_together(house: House, count: int) -> None:
    for number in range(count):
        house.add(f"job-{number}", concurrency=ONE_AT_A_TIME)
    house.dispatcher.tick(house.now)
    await house.open()
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)


def states(house: House) -> list[State]:
    return [execution.state for execution in house.executions()]


async def test_a_worker_lets_the_next_one_go_itself() -> None:
    house = House()
    await due_together(house, 3)
    assert states(house) == [State.PUBLISHED, State.HELD, State.HELD]

    for _ in range(3):
        await house.work()
        await house.worker.settled()

    assert states(house) == [State.SUCCEEDED] * 3
    assert house.worker.counters.held == 0  # none went round as a message


async def test_what_nobody_let_go_a_scheduler_does(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    await due_together(house, 2)
    monkeypatch.setattr("cronhare.application.worker.record.GateOpener.open", lambda *_: None)
    await house.work()
    assert states(house) == [State.SUCCEEDED, State.HELD]

    house.reconciler.tick(house.now)

    assert states(house) == [State.SUCCEEDED, State.PUBLISHED]

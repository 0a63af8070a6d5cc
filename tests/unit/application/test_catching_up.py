"""Late runs begin one after the other, where there is a budget for them."""

from datetime import timedelta

from cronhare.application.administration.story import explain_execution
from cronhare.domain.execution import State
from cronhare.domain.retries.limits import catch_up_policy
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import MINUTE
from tests.unit.application.house import House

HOUR = timedelta(hours=1)


async def test_after_a_downtime_late_runs_begin_at_the_rate_of_their_budget(lines: Lines) -> None:
    house = House(catch_up=catch_up_policy(2))
    for hour in range(5):
        house.add(f"at-{hour}", schedule=f"30 {12 + hour} * * *")
    house.add("on-time", schedule="0 18 * * *")
    house.dispatcher.tick(house.now)
    house.clock.advance(6 * HOUR)
    await house.open()
    began = house.now

    await house.turn()
    waiting = [one for one in house.executions() if one.state is State.PUBLISHED]
    told = explain_execution(waiting[-1], (), now=house.now)
    for _ in range(30):
        await house.turn(MINUTE / 6)

    begun = {one.schedule_name: (one.started_at or began) - began for one in house.executions()}
    assert begun == {
        **dict.fromkeys(("at-0", "at-1", "on-time"), timedelta(0)),
        "at-2": MINUTE,
        "at-3": 1.5 * MINUTE,
        "at-4": 2 * MINUTE,
    }
    assert {one.state for one in house.executions()} == {State.SUCCEEDED}
    assert (
        "It waits for its turn at 2026-03-02 18:02:00Z, as it catches up: CRON_CATCH_UP_BUDGET "
        "lets 2 late runs begin in a minute."
    ) in told.because
    assert [one for one in lines() if "3 late runs to begin one after the other" in one]

"""Events by topic: who hears them, and what becomes of those that nobody does."""

from datetime import timedelta

from cronhare.domain.execution import State
from cronhare.domain.retries.retry import TASK_WAIT
from cronhare.domain.schedules.catalog import NoListener, ref_of_topic
from cronhare.ports.records import Unheard
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import live, run
from tests.unit.application.house import House

TOPIC = "orders.due"
EVENT = {"task": ref_of_topic(TOPIC), "topic": TOPIC, "params": '{"order":7}'}


async def test_an_event_that_nobody_hears_is_completed_with_a_warning_and_counted(
    lines: Lines,
) -> None:
    house = House()

    await run(house, **EVENT)

    assert house.only.state is State.SUCCEEDED
    [told] = [line for line in lines() if "Nobody listens to orders.due: completed" in line]
    assert told.startswith("[WARN] [type=event, ")
    assert list(house.records.unheard(limit=9)) == [
        Unheard(topic=TOPIC, count=1, last_at=house.now)
    ]


async def test_a_schedule_may_let_such_an_event_fail_for_good() -> None:
    house = House()

    await run(house, **EVENT, no_listener=NoListener.FAIL)
    await live(house, TASK_WAIT, timedelta(seconds=5))

    assert house.only.state is State.FAILED
    assert not house.records.unheard(limit=9)
    assert "no task of this worker listens to orders.due" in (house.only.last_error or "")
    [archived] = house.records.archive()
    assert archived.topic == TOPIC

"""Why a schedule ran or did not, and the story of an execution."""

from datetime import datetime, timedelta
from typing import Any

import attrs
import pytest

from cronhare.adapters.sql.records.replays import SqlReplayStore
from cronhare.application.administration.explain import Explanations
from cronhare.application.administration.reading.lookup import NotFound, find_schedule
from cronhare.application.administration.story import (
    Explanation,
)
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.orders import BackfillOrder
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.schedule import Concurrency, Misfire, MisfirePolicy
from tests.actors import ADA
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import (
    FOR_GOOD,
    IN_30_S,
    SECOND,
    memory_ledger,
)
from tests.unit.application.deliveries import always, failure, run
from tests.unit.application.house import NOON, House

MINUTE = timedelta(minutes=1)


def ask(house: House, instant: datetime = NOON + MINUTE, **changes: Any) -> Explanation:  # noqa: ANN401
    stored = attrs.evolve(find_schedule(house.schedules, "report"), **changes)
    return explanations(house).explain(stored, instant)


@pytest.mark.parametrize(
    ("changes", "instant", "answer"),
    [
        ({}, NOON + MINUTE, "no scheduler has claimed anything since"),
        ({}, NOON - MINUTE, "from before an edit is not run by itself"),
        (
            {"starts_at": NOON + 9 * MINUTE},
            NOON + MINUTE,
            "schedule starts at 2026-03-02 12:09",
        ),
        ({}, NOON + timedelta(days=1), "It is due then"),
    ],
)
def test_a_reason_is_found_where_there_is_no_record(
    changes: dict[str, Any], instant: datetime, answer: str
) -> None:
    house = House()
    house.add(**changes)
    house.clock.advance(timedelta(minutes=5))

    told = ask(house, instant)

    assert not told.ran
    assert answer in told.answer
    assert (told.because == (BY_A_BACKFILL,)) is ("before an edit" in answer)


BY_A_BACKFILL = (
    "`cronhare schedules backfill report --since 2026-03-02T11:59:00Z "
    "--until 2026-03-02T11:59:01Z` runs it."
)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_backfill_that_is_under_way_is_named_of_an_instant_that_it_has(
    is_recorded: bool,
) -> None:
    house = House()
    house.add(misfire=Misfire(policy=MisfirePolicy.SKIP))
    if is_recorded:
        house.clock.advance(10 * MINUTE)
        house.dispatcher.tick(house.now)
    first = NOON + MINUTE if is_recorded else NOON - MINUTE
    order = BackfillOrder(
        scheduler_id=find_schedule(house.schedules, "report").id,
        schedule="report",
        since=first,
        until=first + MINUTE,
    )
    SqlReplayStore(house.engine, house.clock).order(order, now=house.now)

    within, after = ask(house, first), ask(house, first + MINUTE)

    named = "Backfill 1 is under way and has it: `cronhare replays show 1`."
    assert within.because[-1] == named
    assert named not in after.because


def test_a_tick_of_an_interval_is_explained_by_its_second() -> None:
    house, second = House(), timedelta(seconds=1)
    house.add(schedule=None, every=10 * second)
    house.dispatcher.tick(house.now)
    house.clock.advance(10 * second)
    house.dispatcher.tick(house.now)

    ran, between = ask(house, NOON + 10.5 * second), ask(house, NOON + 9 * second)

    assert ran.execution is not None
    assert ran.execution.key == "every-2026-03-02T12:00:10Z"
    assert between.answer == "It was not due then"
    assert between.because[1] == "The instant after is 2026-03-02 12:00:10Z."


async def test_a_run_by_hand_is_explained_at_the_very_moment_and_told_of_in_its_minute() -> None:
    house = House()
    house.add()
    house.dispatcher.tick(house.now)  # it is planned
    house.clock.advance(timedelta(seconds=4.680965))
    begun = house.administrator.run_now("report", params=None, actor=ADA)
    await house.open()
    await house.turn()

    exact, in_minute = ask(house, begun.due_at), ask(house, NOON)

    assert (exact.ran, exact.answer) == (True, "It ran and succeeded")
    assert exact.because[0] == "Somebody asked for it."
    assert exact.execution is not None
    assert exact.execution.id == begun.id
    assert not in_minute.ran
    said = f"Somebody asked for it, at 2026-03-02 12:00:04Z: execution {begun.id}, succeeded."
    assert in_minute.because[0] == said


def explanations(house: House) -> Explanations:
    found: Explanations = house.container.explanations()
    return found


@pytest.mark.parametrize(
    ("cut_off", "rest"),
    [
        (3 * MINUTE, ", and no worker reports that it serves its queue, cron_scheduler."),
        (0 * MINUTE, "."),
    ],
)
def test_a_run_that_waits_for_a_place_names_who_has_it_and_whether_its_queue_is_served(
    cut_off: timedelta, rest: str
) -> None:
    house = House()
    for name in ("first", "second"):
        house.add(name, concurrency=Concurrency(key="customer-42", limit=1))
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)
    [first] = house.executions(State.PUBLISHED)
    [second] = house.executions(State.HELD)

    house.report(consumed_at=house.now - cut_off)

    told = explanations(house).of_execution(second.id)

    has = f"Execution {first.id} with key customer-42 is published"
    assert told.because[-1] == has + rest


def test_a_run_on_a_queue_that_nobody_serves_says_so() -> None:
    house = House()
    house.add(queue="misspelt")
    house.administrator.run_now("report", params=None, actor=ADA)
    nobody = "No worker that is connected serves queue misspelt."
    assert nobody in explanations(house).of_execution(house.only.id).because

    house.report(queues=["misspelt"], consumed_at=house.now)

    assert nobody not in explanations(house).of_execution(house.only.id).because


async def test_an_event_that_nobody_heard_is_not_said_to_have_run() -> None:
    house = House()
    await run(house, task=ref_of_topic("orders.due"), topic="orders.due")

    told = explanations(house).of_execution(house.only.id)

    assert (told.ran, told.answer) == (
        False,
        "It was completed without being run: nobody listened to orders.due",
    )
    assert told.because[-1].startswith('`no_listener = "fail"` of its schedule')


async def test_of_a_schedule_that_is_gone_it_is_told_what_is_left() -> None:
    house = House(script=always(failure()))
    await run(house, retry=RetryPolicy(attempts=1))
    house.sql("UPDATE FailedTask SET schedule_name = 'gone'")

    with pytest.raises(NotFound, match="One of that name was deleted or renamed: its last failure"):
        explanations(house).of_instant("gone", None)
    with pytest.raises(NotFound, match="there is no schedule"):
        explanations(house).of_instant("\x00" * 999, None)


def test_a_schedule_without_times_says_who_would_begin_it_and_what_its_last_run_came_of() -> None:
    house = House()
    house.add(schedule=None)
    asked = explanations(house)

    never = asked.of_instant("report", None)
    house.administrator.run_now("report", params=None, actor=ADA)
    house.clock.advance(MINUTE)
    house.administrator.run_at_start("report", now=house.now)
    for one in house.executions():
        house.administrator.cancel(one.id, actor=ADA)
    last = asked.of_instant("report", None)

    assert (never.ran, never.answer) == (False, "It has not run yet")
    assert never.because[0] == "It has no times of its own: `cronhare run report` begins it."
    assert last.execution is not None
    assert last.execution.trigger == "start"
    assert last.because[0] == (
        "It began with a start of `cronhare up`, at 2026-03-02 12:01:00Z; it is the last run of "
        "this schedule."
    )
    assert never.because[0] in last.because, "who would begin another"


def test_a_replay_is_told_apart_from_a_retry_and_each_has_its_wait_and_its_reason() -> None:
    ledger = memory_ledger(FrozenClock(NOON))
    claimed = ledger.claimed(retry=RetryPolicy(attempts=2))
    ledger.clock.advance(SECOND)
    retried = ledger.finished(claimed, IN_30_S)
    ledger.finished(retried, FOR_GOOD)
    [archived] = ledger.records.archive()
    ledger.clock.advance(timedelta(hours=1))
    [again] = ledger.records.replay([archived.id], now=ledger.now)
    ledger.succeeded(again)

    steps = ledger.explanations.story_of(claimed.id).steps

    waits = [(each.seconds, each.planned_seconds) for each in steps if each.kind == "waited"]
    assert waits == [(1.0, None), (30.0, 30.0), (3600.0, None)]
    assert [(each.decision, each.reason) for each in steps if each.kind == "tried"] == [
        ("tried again", "retry 1/1: the server did not answer"),
        ("failed for good, and replayed later", FOR_GOOD.reason),
        ("succeeded", "succeeded"),
    ]
    assert (steps[-1].kind, steps[-1].state) == ("stands", "succeeded")

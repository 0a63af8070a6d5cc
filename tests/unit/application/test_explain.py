from datetime import datetime, timedelta
from typing import Any

import attrs
import pytest

from cronhare.adapters.sql.records.replays import SqlReplayStore
from cronhare.application.administration.reading.lookup import find_schedule
from cronhare.application.administration.story import Explanation, explain_execution
from cronhare.application.administration.views.failures import FailureView
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.orders import BackfillOrder
from cronhare.domain.lifecycle.transitions import cancel_for, end, overruled
from cronhare.domain.retries.limits import BreakerPolicy, RetryLimits
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.retries.retry import Complete
from cronhare.domain.schedules.conditions import Conditions
from cronhare.domain.schedules.schedule import Misfire, MisfirePolicy
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.cli.commands.failures import failure_columns
from tests.actors import ADA
from tests.unit.application.deliveries import begin, due, run
from tests.unit.application.endings import always, failure
from tests.unit.application.house import NOON, House
from tests.unit.application.test_queries import explanations

MINUTE = timedelta(minutes=1)


def ask(house: House, instant: datetime = NOON + MINUTE, **changes: Any) -> Explanation:  # noqa: ANN401
    stored = attrs.evolve(find_schedule(house.schedules, "report"), **changes)
    return explanations(house).explain(stored, instant)


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        (State.CLAIMED, "the broker has not taken it yet"),
        (State.PUBLISHED, "waits for a worker"),
        (State.RUNNING, "It is running"),
        (State.SUCCEEDED, "It ran and succeeded"),
        (State.CANCELLED, "It was cancelled"),
        (State.HANDED_OVER, "It was handed over: whether it ran"),
    ],
)
async def test_every_state_has_its_answer(state: State, answer: str) -> None:
    house = House(holds=True)
    if state is State.HANDED_OVER:
        house = House(foreign_queues=[MAIN_QUEUE])
    if state is State.CLAIMED:
        house.broker.go_away()
    if state is State.RUNNING:
        await begin(house)
    elif state is State.SUCCEEDED:
        house = House()
        await run(house)
    else:
        due(house)
    if state is State.CANCELLED:
        house.administrator.cancel(house.only.id, actor=ADA)

    told = ask(house)

    assert house.only.state is state
    assert answer in told.answer
    assert told.ran == (state in {State.RUNNING, State.SUCCEEDED})


async def test_a_failure_says_why() -> None:
    house = House(script=always(failure("no {such} table")))
    await run(house, retry=RetryPolicy(attempts=1))

    assert ask(house).answer == "It ran and failed for good: no {such} table"


async def test_an_error_is_told_for_which_an_open_breaker_gave_the_reason() -> None:
    breaker = BreakerPolicy(least=2, window=5 * MINUTE)
    house = House(script=always(failure("no pool")), limits=RetryLimits(breaker=breaker))
    await run(house)
    for _ in range(3):
        await house.turn(MINUTE)
    failed = house.executions(State.FAILED)[-1]

    told = explain_execution(failed, house.records.attempts(failed.id), now=house.now)

    assert told.answer == "It ran and failed for good: Circuit breaker activated"
    assert "Its last attempt ended so: no pool." in told.because
    [archived, *_] = house.records.archive()
    reason = failure_columns(with_resolved=False)["REASON"]
    assert callable(reason)
    assert reason(FailureView.of(archived)) == "no pool (Circuit breaker activated)"


def test_one_of_a_row_of_missed_instants_is_explained_by_the_row() -> None:
    house = House()
    house.add(misfire=Misfire(policy=MisfirePolicy.SKIP))
    house.dispatcher.tick(house.now)
    house.clock.advance(timedelta(minutes=10))
    house.dispatcher.tick(house.now)

    told = ask(house, NOON + 4 * MINUTE)

    assert told.answer == "It was due and did not run: missed, and the misfire policy is skip"
    assert told.because[0].startswith("It is one of 8 instants from 2026-03-02 12:01:00Z to ")


async def test_a_run_that_a_later_one_has_replaced_says_so() -> None:
    house = House(holds=True)
    await begin(house)
    replaced = cancel_for(house.only, 7, now=house.now)
    ended = end(replaced, overruled(replaced, Complete()), Ending.CANCELLED, now=house.now)

    assert explain_execution(ended, (), now=house.now).answer == (
        "It was cancelled: overlap: execution 7 takes its place (overlap policy cancel_previous)"
    )


@pytest.mark.parametrize(
    ("changes", "instant", "answer"),
    [
        ({}, NOON + MINUTE, "no scheduler has claimed anything since"),
        ({}, NOON - MINUTE, "from before an edit is not run by itself"),
        ({"status": False}, NOON + MINUTE, "the schedule is disabled"),
        (
            {"starts_at": NOON + 9 * MINUTE},
            NOON + MINUTE,
            "schedule starts at 2026-03-02 12:09",
        ),
        (
            {"ends_at": NOON + 2 * MINUTE},
            NOON + 3 * MINUTE,
            "schedule ended at 2026-03-02 12:02",
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
    assert (told.because == (RUNS_PAST_INSTANTS,)) is ("before an edit" in answer)


RUNS_PAST_INSTANTS = "`cronhare schedules backfill report --since … --until …` runs past instants."


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


def test_what_keeps_a_day_off_keeps_a_backfill_off_too() -> None:
    house = House()
    house.add(conditions=Conditions(blackout=("12:00-13:00",)))
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)

    recorded, before_an_edit = ask(house), ask(house, NOON)

    for told in (recorded, before_an_edit):
        assert RUNS_PAST_INSTANTS not in told.because
        assert told.because[-1].startswith("A backfill leaves it out as well")
        assert "`cronhare run report` runs it now" in told.because[-1]


def test_what_schedulers_pass_over_is_told_from_schedulers_that_are_not_there() -> None:
    house = House()
    house.add("other")
    house.add()
    house.clock.advance(2 * MINUTE)
    house.dispatcher.tick(house.now)

    told = ask(house, house.now, id=99, next_due_at=house.now)

    assert told.answer == (
        "It did not run yet: schedulers claim others, and not this one (the last "
        f"{house.node} at 2026-03-02 12:02:00Z)"
    )
    assert any("`schedule.held`" in reason for reason in told.because)


async def test_an_old_instant_without_a_record_was_cleaned_up() -> None:
    house = House()
    await run(house)
    house.dispatcher.tick(house.now)
    house.clock.advance(timedelta(days=8))

    told = ask(house, id=99)

    assert "records of runs are removed after 7 days" in told.answer


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

"""Attempts that are cancelled, given back or lost, and a ledger that is away in between."""

from datetime import timedelta

from cronhare.application.administration.story import explain_execution
from cronhare.domain.execution import State
from cronhare.domain.retries.outcome import snoozed
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.topology import FAILED_QUEUE, MAIN_QUEUE
from cronhare.ports.runner import StopReason
from tests.actors import ADA
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import (
    MINUTE,
    SECOND,
    begin,
    due,
    live,
    run,
    waits,
)
from tests.unit.application.endings import Seen, always, failure, one_by_one
from tests.unit.application.house import GRACE, LEASE, House


async def test_cancelling_a_running_attempt_stops_its_task(lines: Lines) -> None:
    house = House(holds=True)
    await begin(house)

    answered = house.administrator.cancel(house.only.id, actor=ADA)
    house.keeper.renew()
    await house.settle()

    assert (answered, house.only.state) == (State.RUNNING, State.CANCELLED)
    place = f"[execution={house.only.id}, attempt=1]"
    asked = f"[WARN] {place} Stopping execution {house.only.id}: somebody asked for its end"
    assert asked in lines()
    assert [line for line in lines() if line.endswith("Task cancelled")]


async def test_a_task_may_snooze_as_often_as_it_likes_and_loses_nothing_by_it(
    lines: Lines,
) -> None:
    ends = [failure(), *[snoozed(MINUTE)] * 9, failure(), failure()]
    house = House(script=one_by_one(ends))
    await run(house)

    await live(house, timedelta(minutes=9))
    told = explain_execution(house.only, house.records.attempts(house.only.id), now=house.now)
    await live(house, timedelta(minutes=10))

    assert told.answer == "It ran, and its task asked to be run again later"
    assert (house.only.state, house.only.attempt, house.only.deaths) == (State.SUCCEEDED, 13, 3)
    assert waits(house) == [30.0, *[60.0] * 9, 60.0, 120.0]
    snooze = "Task snoozed for 1m by its task, which costs no attempt"
    assert len([one for one in lines() if one.startswith("[INFO]") and one.endswith(snooze)]) == 9


# Shutting down


async def test_a_delivery_while_draining_goes_back_to_its_queue() -> None:
    house = House()
    due(house)
    await house.open()
    await house.settle()
    await house.connection.pause()

    house.worker.drain()
    await house.work()

    assert (house.broker.depth(MAIN_QUEUE), house.only.state) == (1, State.PUBLISHED)


async def test_an_interrupted_attempt_costs_nothing_and_is_made_again(lines: Lines) -> None:
    house = House(holds=True)
    await begin(house)
    house.worker.drain()

    house.runner.stop(house.only.id, StopReason.INTERRUPTED)
    await house.settle()

    given_back = house.only
    assert (given_back.state, given_back.attempt, given_back.deaths) == (State.RETRYING, 2, 0)
    reason = "Task given back: stopped: interrupted, which costs no attempt"
    assert [line for line in lines() if line.startswith("[WARN]") and line.endswith(reason)]
    house.holds = False
    await house.restart()
    await house.work()
    assert (house.only.state, house.only.attempt) == (State.SUCCEEDED, 2)


async def interrupted(house: House, *, after: timedelta, times: int) -> None:
    """Let shutdowns interrupt a task so long after its start, time and again."""
    await begin(house)
    for _ in range(times):
        house.clock.advance(after)
        house.keeper.renew()
        house.worker.drain()
        house.worker.interrupt()
        await house.settle()
        await house.connection.close()
        house.under_way.clear()
        house.build(broker=house.broker)
        await house.open_wide()
        await house.settle()


async def test_a_task_that_restarts_its_worker_is_quarantined_the_fourth_time() -> None:
    house = House(holds=True)

    await interrupted(house, after=GRACE + SECOND, times=3)
    third = house.only.state
    house.clock.advance(GRACE + SECOND)
    house.worker.interrupt()
    await house.settle()

    assert (third, house.only.state, house.only.attempt) == (State.RUNNING, State.QUARANTINED, 4)
    told = explain_execution(house.only, house.records.attempts(house.only.id), now=house.now)
    said = "was interrupted 4 times soon after its start: it seems to restart its worker"
    assert told.answer == f"It was quarantined: {said}"
    [archived] = house.records.archive()
    assert archived.pill is not None
    assert archived.pill.crash_count == 4


async def test_what_begins_after_everything_was_stopped_is_given_back_and_never_run() -> None:
    seen = Seen()
    house = House(script=seen, holds=True)
    due(house)
    house.outage.takes["start"] = house.worker.interrupt  # while the question is on its way
    house.outage.begin("start", calls=1, heard=True)
    await house.open()
    await house.settle()

    await house.worker.handle(house.deliveries.pop())

    assert (house.runner.running, seen.invocations) == (frozenset(), [])
    given_back = house.only
    assert (given_back.state, given_back.attempt, given_back.deaths) == (State.RETRYING, 2, 0)


# A ledger that is away


async def test_a_result_is_told_until_the_ledger_hears_it(lines: Lines) -> None:
    house = House()
    house.outage.begin("finish", calls=5)

    await run(house)
    await house.worker.settled()

    away = "[ERROR] The ledger does not answer, asking again: the ledger is away"
    assert house.only.state is State.SUCCEEDED
    assert lines().count(away) == 1
    assert "[INFO] The ledger answers again, after 0 s" in lines()


async def test_a_failure_for_good_is_told_though_its_finish_was_heard_and_not_answered(
    lines: Lines,
) -> None:
    house = House(script=always(failure()), policy=RetryPolicy(attempts=1))
    house.outage.begin("finish", calls=1, heard=True)

    await run(house)

    assert (house.only.state, len(house.messages(FAILED_QUEUE))) == (State.FAILED, 1)
    assert len(house.records.archive()) == 1
    assert [line for line in lines() if "Task failed for good and is kept in the archive" in line]
    assert not [line for line in lines() if "The result is not counted" in line]


async def test_a_worker_that_shuts_down_gives_a_result_up_after_a_lease_without_a_ledger() -> None:
    house = House(holds=True)
    await begin(house)
    house.outage.begin("finish")
    house.runner.release(house.only.id)
    await house.settle()
    await house.connection.pause()
    house.worker.drain()

    house.clock.advance(LEASE - SECOND)
    await house.settle()
    patient = house.worker.pending_ends
    house.clock.advance(SECOND)
    await house.settle()
    given_up = house.worker.pending_ends

    assert (patient, given_up) == (1, 0)
    assert not house.keeper.running


async def test_a_lost_lease_ends_the_task_and_its_result_is_superseded(lines: Lines) -> None:
    house = House(holds=True)
    await begin(house)
    house.outage.begin("renew")
    house.clock.advance(LEASE)
    house.reconciler.tick(house.now)

    house.keeper.renew()
    await house.settle()

    assert (house.worker.counters.superseded, house.runner.running) == (1, frozenset())
    assert (house.only.state, house.only.attempt, house.only.deaths) == (State.RETRYING, 2, 1)
    assert [line for line in lines() if "The result is not counted" in line]

"""How attempts go, are retried, given back or lost, and kept from being made twice."""

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from cronhare.application.administration.story import explain_execution
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.retry_limits import CatchUp
from cronhare.domain.retries.limits import BudgetPolicy, RetryLimits
from cronhare.domain.retries.outcome import PoisonPill, snoozed
from cronhare.domain.retries.policy import Backoff, BackoffType, RetryPolicy
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.topology import FAILED_QUEUE, MAIN_QUEUE, QUARANTINE_QUEUE
from cronhare.ports.broker import Delivery, Envelope, Published
from cronhare.ports.records import Unheard
from tests.actors import ADA
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import (
    CRASH,
    MINUTE,
    SECOND,
    Seen,
    always,
    begin,
    deliver,
    due,
    failure,
    foreign_body,
    live,
    one_by_one,
    run,
    waits,
)
from tests.unit.application.house import GRACE, LEASE, House


async def test_a_due_instant_goes_from_the_table_to_a_finished_attempt(lines: Lines) -> None:
    seen = Seen()
    house = House(script=seen)
    params = '{"options_interface":{"delivery":{"instant":false,"to":"me"}}}'

    await run(house, params=params, timeout=timedelta(seconds=7))

    execution = house.only
    [attempt] = house.records.attempts(execution.id)
    [invocation] = seen.invocations
    assert (execution.state, execution.attempt, execution.deaths) == (State.SUCCEEDED, 1, 0)
    assert (attempt.attempt, attempt.ending, attempt.exit_code) == (1, "succeeded", 0)
    assert (invocation.execution_key, invocation.attempt) == ("cron-2026-3-2-12-1", 1)
    assert invocation.params == {"options_interface": {"delivery": {"instant": True, "to": "me"}}}
    assert invocation.task.timeout == timedelta(seconds=7)
    assert house.broker.depth(MAIN_QUEUE) == 0
    about = f"[type=report, id=25, scheduler_id={execution.scheduler_id}"
    place = f"execution={execution.id}, attempt=1, schedule={execution.schedule_name}]"
    assert lines()[-3:] == [
        f"[INFO] {about}, {place} Processing task",
        f"[DEBUG] [{place} Task parameters: {params}",
        f"[SUCCESS] {about}, duration=0ms, {place} Task completed successfully",
    ]


async def test_an_attempt_that_was_lost_here_ends_before_the_next_one_begins_here() -> None:
    house = House(holds=True)
    await begin(house)
    await live(house, 2.5 * LEASE)  # nothing is renewed: to the others we are gone, but we are not
    await house.settle()

    [lost, next_one] = house.records.attempts(house.only.id)
    assert (lost.ending, next_one.attempt, next_one.ending) == ("lost", 2, None)
    assert house.runner.running == {house.only.id}
    assert [each.execution.id for each in house.keeper.running] == [house.only.id]
    assert (house.worker.counters.superseded, house.only.state) == (1, State.RUNNING)

    house.runner.release(house.only.id)
    await house.settle()

    assert house.only.state is State.SUCCEEDED


async def test_a_failing_task_is_retried_after_30_60_and_120_seconds_then_archived(
    lines: Lines,
) -> None:
    stack = "Error: Connection timeout\n    at RefreshUserToken.mainFunction (x.js:45:15)"
    house = House(script=always(failure(stack=stack)))
    await run(house)

    await live(house, timedelta(seconds=240))

    execution = house.only
    assert (execution.state, execution.attempt, execution.deaths) == (State.FAILED, 4, 3)
    assert waits(house) == [30.0, 60.0, 120.0]
    about = f"[type=report, id=25, scheduler_id={execution.scheduler_id}"
    said = [line for line in lines() if not line.startswith("[DEBUG]")]
    follows = (
        "Scheduling retry 1/3 in 30000ms",
        "Scheduling retry 2/3 in 60000ms",
        "Scheduling retry 3/3 in 120000ms",
        "Task failed for good and is kept in the archive: Connection timeout",
    )
    expected = []
    for attempt, following in enumerate(follows, start=1):
        place = f"execution={execution.id}, attempt={attempt}, schedule={execution.schedule_name}]"
        expected += [
            f"[INFO] {about}, {place} Processing task",
            f"[ERROR] {about}, duration=0ms, {place} Task execution failed",
            f"[WARN] {about}, {place} {following}",
        ]
    assert [line.splitlines()[0] for line in said] == expected
    assert said[1].splitlines()[1:] == [f"    {line}" for line in stack.splitlines()]


@pytest.mark.parametrize("retry", [RetryPolicy(), RetryPolicy(attempts=1)])
async def test_what_follows_a_failure_is_confirmed_before_the_failure_is_acked(
    monkeypatch: pytest.MonkeyPatch, retry: RetryPolicy
) -> None:
    house = House(script=always(failure()))
    publish, ack = house.connection.publish, house.connection.ack
    told: list[str] = []

    async def slowly(envelope: Envelope) -> Published:
        told.append("publish")
        for _ in range(20):  # the confirm is under way
            await asyncio.sleep(0)
        told.append("confirm")
        return await publish(envelope)

    async def told_ack(delivery: Delivery) -> None:
        told.append("ack")
        await ack(delivery)

    monkeypatch.setattr(house.connection, "publish", slowly)
    monkeypatch.setattr(house.connection, "ack", told_ack)

    await run(house, retry=retry)

    assert told == ["publish", "confirm", "ack"]


async def test_the_failed_message_keeps_the_headers_that_it_came_with() -> None:
    house = House(script=always(failure()), policy=RetryPolicy(attempts=1))
    house.add(schedule=None)
    x_death = [{"queue": MAIN_QUEUE, "reason": "rejected", "count": 2}]

    await deliver(house, foreign_body(house), {"x-death": x_death, "trace": "abc"})

    [message] = house.messages(FAILED_QUEUE)
    assert message.headers["trace"] == "abc"
    assert json.loads(message.body)["retry_count"] == 2


async def test_a_retry_never_carries_the_brokers_headers() -> None:
    house = House(script=always(failure()))
    house.add(schedule=None)
    await deliver(house, foreign_body(house), {"x-death": [{"reason": "rejected", "count": 1}]})
    await house.connection.pause()

    house.clock.advance(timedelta(seconds=60))

    [message] = house.messages(MAIN_QUEUE)
    assert "x-death" not in message.headers
    assert message.headers["cron-deaths"] == 2
    assert message.body == foreign_body(house)


async def test_a_retry_that_is_longer_than_the_lanes_waits_in_the_ledger() -> None:
    two_hours = RetryPolicy(attempts=2, backoff=Backoff(type=BackoffType.FIXED, delay=7_200_000))
    house = House(script=one_by_one([failure()]), policy=two_hours)
    await run(house)

    await house.turn(timedelta(seconds=7_199))
    state_before = house.only.state
    await house.turn(timedelta(seconds=6))

    assert state_before is State.RETRYING
    assert (house.only.state, waits(house)) == (State.SUCCEEDED, [7_205.0])


async def test_three_crashes_within_five_minutes_are_set_apart(lines: Lines) -> None:
    house = House(script=always(CRASH))
    await run(house)

    await live(house, timedelta(seconds=100))

    execution = house.only
    assert (execution.state, execution.attempt) == (State.QUARANTINED, 3)
    [message] = house.messages(QUARANTINE_QUEUE)
    assert json.loads(message.body) == {
        "originalQueue": "cron_scheduler",
        "originalJobId": str(execution.id),
        "originalData": {
            "type": "report",
            "id": 25,
            "scheduler_id": execution.scheduler_id,
            "params_scheduler": "{}",
        },
        "poisonPillRecord": {
            "jobId": str(execution.id),
            "crashCount": 3,
            "firstCrashAt": "2026-03-02T12:01:00.000Z",
            "lastCrashAt": "2026-03-02T12:02:30.000Z",
        },
        "quarantinedAt": "2026-03-02T12:02:30.000Z",
    }
    [archived] = house.records.archive()
    failed_at = archived.failed_at
    assert archived.pill == PoisonPill(3, failed_at - timedelta(seconds=90), failed_at)
    [critical] = [line for line in lines() if "severity=critical" in line]
    assert f"key=poison:cron_scheduler:{execution.id}" in critical
    assert "Poison Pill Job Quarantined: it crashed 3 times within 300 s" in critical


async def test_two_copies_at_once_run_once() -> None:
    seen = Seen()
    house = House(script=seen, holds=True)
    due(house)
    house.publish_again()
    await house.open_wide()
    await house.settle()

    house.runner.release(house.only.id)
    await house.settle()

    assert seen.attempts == [(house.only.id, 1)]
    assert (house.worker.counters.fenced, house.only.state) == (1, State.SUCCEEDED)


async def test_the_next_attempt_may_begin_before_the_last_one_is_acked() -> None:
    at_once = RetryPolicy(backoff=Backoff(type=BackoffType.SEQUENCE, sequence=(0,)))
    house = House(script=one_by_one([failure()]), holds=True, policy=at_once)
    await begin(house)
    house.runner.release(house.only.id)
    await house.settle()
    second = house.only

    house.clock.advance(timedelta(seconds=29))
    house.keeper.renew()
    house.clock.advance(timedelta(seconds=29))

    assert (second.state, second.attempt) == (State.RUNNING, 2)
    assert house.reconciler.tick(house.now).lost == 0, "its lease was kept"
    house.clock.advance(SECOND)
    assert house.reconciler.tick(house.now).lost == 1


# What is given back, and a ledger that is away


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


async def test_a_task_that_restarts_its_worker_is_quarantined_the_fourth_time() -> None:
    house = House(holds=True)
    await begin(house)

    for _ in range(4):
        assert house.only.state is State.RUNNING
        house.clock.advance(GRACE + SECOND)
        house.keeper.renew()
        house.worker.drain()
        house.worker.interrupt()
        await house.settle()
        await house.restart_worker(wide=True)

    assert (house.only.state, house.only.attempt) == (State.QUARANTINED, 4)
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


# Events by topic

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


async def test_a_delivery_of_a_queue_apart_takes_no_place_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = RetryLimits(budget=BudgetPolicy(most=2))
    house = House(places=1, apart=frozenset({"apart"}), holds=True, limits=limits)
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

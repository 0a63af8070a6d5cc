"""What a worker makes of messages that it did not expect."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from cronhare.application.worker.unhandled import DEFERRED_FOR
from cronhare.domain.execution import State
from cronhare.domain.messages import LARGEST_BODY, Signer
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.topology import FAILED_QUEUE, MAIN_QUEUE, QUARANTINE_QUEUE
from tests.ports import ids_of
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import (
    STRANGE_ID,
    deliver,
    due,
    foreign_body,
    live,
    run,
)
from tests.unit.application.endings import Seen, always, failure, one_by_one
from tests.unit.application.house import LEASE, House
from tests.unit.application.waiting import open_room


async def test_a_message_without_headers_gets_a_row_and_runs() -> None:
    seen = Seen()
    house = House(script=seen)
    house.add(schedule=None)

    await deliver(house, foreign_body(house))

    assert house.only.key.startswith("manual-")
    assert (house.only.state, house.only.params) == (State.SUCCEEDED, '{"a":1}')
    assert seen.invocations[0].params == {"a": 1}


async def test_a_failed_message_that_is_put_back_by_hand_runs_again() -> None:
    house = House(script=one_by_one([failure()]), policy=RetryPolicy(attempts=1))
    await run(house)
    [message] = house.messages(FAILED_QUEUE)

    house.publish(message.body)
    await house.work()

    assert [row.state for row in house.executions()] == [State.FAILED, State.SUCCEEDED]


async def test_an_id_that_is_used_again_is_told(lines: Lines) -> None:
    house = House()
    house.add(schedule=None)
    await deliver(house, foreign_body(house), message_id="always-the-same")

    house.publish(foreign_body(house), message_id="always-the-same")
    await house.work()

    [told] = [
        line for line in lines() if line.startswith("[WARN] Not run: message always-the-same")
    ]
    assert f"execution {house.only.id} (succeeded)" in told


async def test_a_foreign_message_is_acked_before_its_task_is_over() -> None:
    house = House(holds=True)
    house.add(schedule=None)
    house.publish(foreign_body(house))
    await house.open_wide()
    await house.settle()

    for node in ("bee-1", "cat-1"):  # its channel is lost, and whatever was not acked comes again
        await house.connection.close()
        house = house.neighbour(node)
        await house.open_wide()
        await house.settle()

    assert [row.state for row in house.executions()] == [State.RUNNING]


async def test_what_was_adopted_without_an_answer_before_a_shutdown_is_not_adopted_twice() -> None:
    house = House()
    house.add(schedule=None)
    house.outage.begin("adopt", heard=True)
    house.outage.takes["adopt"] = house.worker.drain
    house.publish(foreign_body(house), message_id="their-17")
    await house.open()
    await house.settle()
    await house.connection.pause()
    await house.worker.handle(house.deliveries.pop())
    house.outage.end()

    await house.restart_worker()
    await live(house, timedelta(minutes=1))

    assert [row.state for row in house.executions()] == [State.SUCCEEDED]
    assert house.broker.depth(MAIN_QUEUE) == 0


async def test_foreign_messages_are_refused_where_only_ours_are_wanted() -> None:
    house = House(accepts_foreign=False)
    due(house)

    await deliver(house, foreign_body(house))

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert "CRON_FOREIGN_MESSAGES" in str(parked.headers["cron-parked-because"])
    assert house.only.state is State.SUCCEEDED


async def test_a_message_that_foreign_workers_nacked_too_often_is_not_retried() -> None:
    house = House(script=always(failure()))
    house.add(schedule=None)

    await deliver(house, foreign_body(house), {"x-death": [{"reason": "rejected", "count": 3}]})

    assert (house.only.state, house.only.attempt) == (State.FAILED, 1)


async def test_a_message_for_an_unknown_schedule_is_parked_with_the_reason(lines: Lines) -> None:
    house = House()
    body = foreign_body(house)

    await deliver(house, body, {"trace": "abc"})

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert (parked.body, parked.headers["trace"]) == (body, "abc")
    assert f"schedule with the id {STRANGE_ID}" in str(parked.headers["cron-parked-because"])
    assert house.worker.counters.parked == 1
    assert [line for line in lines() if line.startswith("[ERROR] Parked a message")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff\xfe\x00", "not a task message"),
        (b"x" * 17_000_000, "17000000 bytes, 1048576 are allowed"),
        (b"x" * 1_000_000, "1000000 bytes, 262144 are allowed"),
    ],
    ids=["binary", "17 MB", "1 MB"],
)
async def test_an_unreadable_message_is_parked_as_it_is_and_the_worker_goes_on(
    body: bytes, reason: str
) -> None:
    house = House()
    await deliver(house, body)
    house.add(schedule=None)

    house.publish(foreign_body(house))
    await house.work()

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert parked.body == body[:LARGEST_BODY]
    assert parked.headers["cron-parked-size"] == len(body)
    assert reason in str(parked.headers["cron-parked-because"])
    assert house.only.state is State.SUCCEEDED


async def test_a_ticket_for_an_execution_that_nobody_knows_is_parked() -> None:
    seen = Seen()
    house = House(script=seen)
    house.add(schedule=None)

    await deliver(house, foreign_body(house), {"cron-execution-id": STRANGE_ID, "cron-attempt": 1})

    assert (house.executions(), seen.invocations) == ([], [])
    assert (house.worker.counters.parked, house.broker.depth(MAIN_QUEUE)) == (1, 0)


async def test_task_and_params_of_a_known_execution_come_from_the_ledger() -> None:
    seen = Seen()
    house = House(script=seen)
    due(house)
    [genuine] = house.messages(MAIN_QUEUE)

    await deliver(house, foreign_body(house, id=66), dict(genuine.headers))

    [invocation] = seen.invocations
    assert (invocation.task.ref, invocation.params) == (TaskRef("report", 25), {})


@pytest.mark.parametrize("changes", [{"type": "frobnicate"}, {"type": "event_", "id": 1}])
async def test_an_unknown_type_of_task_fails_for_good_with_what_there_is(
    changes: dict[str, Any],
) -> None:
    seen = Seen()
    house = House(script=seen)
    house.add(schedule=None)

    await deliver(house, foreign_body(house, **changes))

    reason = f"this worker has no task {house.only.task}; it has: daily-report (report 25)"
    assert house.only.state is State.FAILED
    assert str(house.only.last_error).startswith(reason)
    assert seen.invocations == []


# Forged tickets


KEY, NEXT_KEY, STRANGE_KEY = ("a" * 32, "b" * 32, "c" * 32)


async def test_with_a_key_our_own_messages_run_first_and_again() -> None:
    house = House(script=one_by_one([failure()]), signer=Signer((KEY,)))
    await run(house)
    await live(house, timedelta(minutes=1))

    assert (house.only.state, house.only.attempt) == (State.SUCCEEDED, 2)
    assert house.worker.counters.parked == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cron-signature": "0" * 64}, "signed by none of our keys"),
        ({"cron-signature": b"\xff"}, "signed by none of our keys"),
        ({"cron-attempt": 2}, "signed by none of our keys"),
        ({"cron-deaths": 3}, "signed by none of our keys"),
        ({"cron-execution-key": float("nan")}, "signed by none of our keys"),
        ({"cron-execution-id": "1"}, "signed by none of our keys"),
        ({"cron-signature": None}, "not signed"),
    ],
)
async def test_with_a_key_what_claims_to_be_ours_and_is_not_is_parked(
    changes: dict[str, object], why: str
) -> None:
    house = House(signer=Signer((KEY,)))
    due(house)
    [genuine] = house.messages(MAIN_QUEUE)
    headers = {**genuine.headers, **changes}
    if headers["cron-signature"] is None:
        del headers["cron-signature"]

    await deliver(house, genuine.body, headers)

    [parked] = house.messages(QUARANTINE_QUEUE)
    reason = f"its headers are ours, and it is {why} (CRON_MESSAGE_KEY)"
    assert parked.headers["cron-parked-because"] == reason
    assert house.only.state is State.PUBLISHED


async def test_with_a_key_another_body_is_not_believed() -> None:
    house = House(signer=Signer((KEY,)))
    due(house)
    [genuine] = house.messages(MAIN_QUEUE)

    await deliver(house, foreign_body(house), dict(genuine.headers))

    assert len(house.messages(QUARANTINE_QUEUE)) == 1


async def test_with_a_key_messages_of_others_are_adopted_and_signed_all_the_same() -> None:
    house = House(signer=Signer((KEY,)))
    house.add(schedule=None)

    await deliver(house, foreign_body(house))

    assert house.only.state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("publisher", "believed"),
    [((KEY,), True), ((NEXT_KEY, KEY), True), ((STRANGE_KEY, KEY), False), ((), False)],
)
async def test_a_key_is_changed_while_both_are_known(
    publisher: tuple[str, ...], believed: bool
) -> None:
    house = House(signer=Signer(publisher))
    due(house)
    worker = house.neighbour("bee-1", signer=Signer((KEY, NEXT_KEY)))

    await worker.open()
    await worker.work()

    assert (house.only.state is State.SUCCEEDED) == believed


@pytest.mark.parametrize(
    "params", ["{...}", "[" * 10_000 + "]" * 10_000, r'"\ud800"'], ids=range(3)
)
async def test_params_that_are_not_json_fail_for_good_and_hold_up_nobody(params: str) -> None:
    seen = Seen()
    house = House(script=seen)
    house.add(schedule=None)

    await deliver(house, foreign_body(house, params_scheduler=params))

    assert house.only.state is State.FAILED
    assert (house.only.last_error or "").startswith("the params are not JSON: ")
    assert (seen.invocations, house.broker.depth(MAIN_QUEUE)) == ([], 0)


async def test_a_fault_of_ours_parks_the_delivery_and_frees_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def faulty(_: object) -> Any:  # noqa: ANN401
        raise ZeroDivisionError("a fault of ours")

    house = House(script=faulty)

    await run(house)

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert "ZeroDivisionError" in str(parked.headers["cron-parked-because"])
    assert not house.keeper.running
    assert [record for record in caplog.records if record.levelno == logging.ERROR]
    house.clock.advance(LEASE)
    assert house.reconciler.tick(house.now).lost == 1


async def come_back(house: House) -> None:
    """Let what was put off come back from the waiting room, and be handled."""
    await open_room(house)
    house.clock.advance(DEFERRED_FOR)
    await house.settle()
    await house.work()


async def test_a_message_that_was_put_off_in_doubt_is_taken_over_once() -> None:
    house = House()
    house.add(schedule=None)
    [held] = ids_of(house.schedules, ["report"]).values()
    house.outage.begin("adopt", calls=1, heard=True)
    house.outage.slow["adopt"] = lambda: house.outage.held_schedules.add(held)
    await house.open()
    house.publish(foreign_body(house))
    await house.work()

    house.outage.held_schedules.clear()
    await come_back(house)
    house.clock.advance(timedelta(minutes=1))
    house.reconciler.tick(house.now)
    await house.work()

    assert len(house.executions()) == 1

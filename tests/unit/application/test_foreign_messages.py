"""What a worker makes of messages that it did not expect, and of queues that others serve."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from cronhare.adapters.sql.nodes import SqlRedeliveryStore
from cronhare.application.worker import ledger
from cronhare.domain.execution import State
from cronhare.domain.messages import LARGEST_BODY, Signer
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.schedule import OverlapPolicy
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.topology import FAILED_QUEUE, MAIN_QUEUE, QUARANTINE_QUEUE
from cronhare.ports import LedgerUnavailable
from cronhare.ports.broker import Delivery
from tests.ports import ids_of
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import (
    MINUTE,
    STRANGE_ID,
    Seen,
    deliver,
    due,
    failure,
    foreign_body,
    one_by_one,
    run,
)
from tests.unit.application.house import LEASE, House


async def test_a_failed_message_that_is_put_back_by_hand_runs_again() -> None:
    house = House(script=one_by_one([failure()]), policy=RetryPolicy(attempts=1))
    await run(house)
    [message] = house.messages(FAILED_QUEUE)

    house.publish(message.body)
    await house.work()

    assert [row.state for row in house.executions()] == [State.FAILED, State.SUCCEEDED]


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


async def test_foreign_messages_are_refused_where_only_ours_are_wanted() -> None:
    house = House(accepts_foreign=False)
    due(house)

    await deliver(house, foreign_body(house))

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert "CRON_FOREIGN_MESSAGES" in str(parked.headers["cron-parked-because"])
    assert house.only.state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (b"\xff\xfe\x00", {}, "not a task message"),
        (b"x" * 17_000_000, {}, "17000000 bytes, 1048576 are allowed"),
        (foreign_body(scheduler_id=STRANGE_ID), {}, f"schedule with the id {STRANGE_ID}"),
        (
            foreign_body(scheduler_id=1),
            {"cron-execution-id": STRANGE_ID, "cron-attempt": 1},
            f"execution {STRANGE_ID} is unknown",
        ),
    ],
    ids=["binary", "17 MB", "unknown schedule", "unknown execution"],
)
async def test_what_cannot_be_run_is_parked_as_it_is_with_the_reason_and_the_worker_goes_on(
    body: bytes, headers: dict[str, object], reason: str, lines: Lines
) -> None:
    house = House()
    house.add(schedule=None)
    await deliver(house, body, headers)

    house.publish(foreign_body(house))
    await house.work()

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert parked.body == body[:LARGEST_BODY]
    assert parked.headers["cron-parked-size"] == len(body)
    assert reason in str(parked.headers["cron-parked-because"])
    assert [line for line in lines() if line.startswith("[ERROR] Parked a message")]
    assert (house.worker.counters.parked, house.only.state) == (1, State.SUCCEEDED)


async def test_task_and_params_of_a_known_execution_come_from_the_ledger() -> None:
    seen = Seen()
    house = House(script=seen)
    due(house)
    [genuine] = house.messages(MAIN_QUEUE)

    await deliver(house, foreign_body(house, id=66), dict(genuine.headers))

    [invocation] = seen.invocations
    assert (invocation.task.ref, invocation.params) == (TaskRef("report", 25), {})


async def test_an_unknown_type_of_task_fails_for_good_with_what_there_is() -> None:
    seen = Seen()
    house = House(script=seen)
    house.add(schedule=None)

    await deliver(house, foreign_body(house, type="frobnicate"))

    reason = f"this worker has no task {house.only.task}; it has: daily-report (report 25)"
    assert house.only.state is State.FAILED
    assert str(house.only.last_error).startswith(reason)
    assert seen.invocations == []


# Forged tickets


KEY, NEXT_KEY, STRANGE_KEY = ("a" * 32, "b" * 32, "c" * 32)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cron-signature": "0" * 64}, "signed by none of our keys"),
        ({"cron-attempt": 2}, "signed by none of our keys"),
        ({"cron-execution-key": float("nan")}, "signed by none of our keys"),
        ({"body": b"{}"}, "signed by none of our keys"),
        ({"cron-signature": None}, "not signed"),
    ],
)
async def test_with_a_key_what_claims_to_be_ours_and_is_not_is_parked(
    changes: dict[str, Any], why: str
) -> None:
    house = House(signer=Signer((KEY,)))
    due(house)
    [genuine] = house.messages(MAIN_QUEUE)
    headers = {**genuine.headers, **changes}
    body = headers.pop("body", genuine.body)

    given = {name: each for name, each in headers.items() if each is not None}
    await deliver(house, body, given)

    [parked] = house.messages(QUARANTINE_QUEUE)
    reason = f"its headers are ours, and it is {why} (CRON_MESSAGE_KEY)"
    assert parked.headers["cron-parked-because"] == reason
    assert house.only.state is State.PUBLISHED


@pytest.mark.parametrize("keys", [(), (KEY,)])
async def test_a_message_without_our_headers_gets_a_row_and_runs_with_a_key_all_the_same(
    keys: tuple[str, ...],
) -> None:
    seen = Seen()
    house = House(script=seen, signer=Signer(keys))
    house.add(schedule=None)

    await deliver(house, foreign_body(house))

    assert house.only.key.startswith("manual-")
    assert (house.only.state, house.only.params) == (State.SUCCEEDED, '{"a":1}')
    assert seen.invocations[0].params == {"a": 1}


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


# Queues that another program serves


async def test_it_is_not_sent_again_for_days_and_keeps_no_later_run_from_starting() -> None:
    house = House(foreign_queues=[MAIN_QUEUE])
    house.add(overlap=OverlapPolicy.SKIP)
    house.dispatcher.tick(house.now)

    for _ in range(10):
        house.clock.advance(MINUTE)
        house.dispatcher.tick(house.now)
        house.reconciler.tick(house.now)

    assert [row.state for row in house.executions()] == [State.HANDED_OVER] * 10
    assert len(house.messages(MAIN_QUEUE)) == 10
    house.clock.advance(timedelta(days=3))
    house.reconciler.tick(house.now)
    assert house.messages(MAIN_QUEUE) == []


REPORTS = "cron_scheduler.reports"


@pytest.mark.parametrize(("queue", "deaths"), [(REPORTS, 120), (MAIN_QUEUE, 0)])
async def test_forged_nacks_neither_end_nor_put_off_a_run_that_waits_for_its_own_worker(
    queue: str, deaths: int
) -> None:
    house = House(tasks=(), queues=[REPORTS])
    due(house, queue=REPORTS)
    await house.open()
    house.clock.advance(120 * LEASE)

    nacked = {"queue": queue, "reason": "rejected", "count": 1_000_000}
    ticket = {"cron-execution-id": house.only.id, "cron-attempt": house.only.attempt}
    house.publish(foreign_body(house), {**ticket, "x-death": [nacked]})
    await house.work()

    assert (house.only.state, house.only.attempt) == (State.RETRYING, 2)
    assert (house.only.next_attempt_at, house.only.deaths) == (house.now, deaths)
    assert list(house.records.archive()) == []


# Messages that end whoever reads them, before a run has begun (C20 in docs/compatibility.md)

SECOND = timedelta(seconds=1)


@pytest.fixture
def house() -> House:
    """A house with another program's message in its queue."""
    house = House()
    house.add(schedule="0 0 1 1 *")
    house.publish(foreign_body(house), message_id="theirs")
    return house


async def taken_by(house: House, node: str) -> tuple[House, list[asyncio.Task[Any]]]:
    """Start a worker that is delivered what waits, and notes what of it came again."""
    other = house.neighbour(node)
    await other.open()
    await other.settle()
    over = asyncio.Event()

    async def take(delivery: Delivery) -> None:
        async with other.worker._notes.noted(delivery):
            await over.wait()  # and gets no further

    taking = [asyncio.create_task(take(each)) for each in other.deliveries]
    for _ in range(60):
        await asyncio.sleep(0)
    return other, taking


async def ends(other: House, taking: list[asyncio.Task[Any]], *, dies: bool) -> None:
    """Let a worker end; one that dies takes no note back."""

    def unavailable(*_: object, **__: object) -> None:
        raise LedgerUnavailable("gone away")

    with pytest.MonkeyPatch.context() as dead:
        for method in ("hold", "let_go") if dies else ():
            dead.setattr(SqlRedeliveryStore, method, unavailable)
        for task in taking:
            task.cancel()
        await asyncio.gather(*taking, return_exceptions=True)
    await other.connection.close()
    other.clock.advance(SECOND)


async def test_one_that_ended_its_workers_is_parked_unread_and_its_neighbour_runs(
    house: House,
) -> None:
    house.publish(foreign_body(house), message_id="innocent")

    for number in range(4):  # the first of them cannot know that it came before
        await ends(*await taken_by(house, f"ant-{number + 10}"), dies=True)
    await house.open()
    await house.work()

    [parked] = house.messages(QUARANTINE_QUEUE)
    reason = "it ended its worker 3 times within 300 s, before a run had begun"
    assert (parked.id, parked.headers["cron-parked-because"]) == ("theirs", reason)
    assert len(house.executions()) == 1


async def test_once_a_shutdown_has_begun_nothing_more_is_noted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, hold = list[str](), SqlRedeliveryStore.hold

    def holds(store: SqlRedeliveryStore, name: str, **asked: Any) -> Any:  # noqa: ANN401
        noted.append(name)
        return hold(store, name, **asked)

    monkeypatch.setattr(SqlRedeliveryStore, "hold", holds)
    house.publish(foreign_body(house), message_id="another")
    await ends(*await taken_by(house, "ant-10"), dies=True)
    other, taking = await taken_by(house, "ant-11")  # one is noted, the other waits for its turn

    other.worker.drain()
    await ends(other, taking[:1], dies=False)
    await other.settle()

    assert len(noted) == 1
    taking[1].cancel()


@pytest.mark.parametrize("why", ["shutdown", "lost connection"])
async def test_shutdowns_and_lost_connections_do_not_count(
    house: House, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "SHORT_PAUSES", ())
    held = ids_of(house.schedules, ["report"]).values()
    house.outage.held_schedules.update(held)  # or the first of them would adopt it

    for number in range(6):
        other = house.neighbour(f"ant-{number + 10}")
        await other.open()
        await other.settle()
        if why == "shutdown":
            other.worker.drain()
        else:
            house.outage.slow["adopt"] = house.broker.go_away  # with the message in hand
        await other.worker.handle(other.deliveries.pop())
        house.broker.come_back()
        await other.connection.close()  # the message goes on to the next; this worker lives
    house.outage.held_schedules.clear()
    await house.open()
    await house.work()

    assert len(house.executions()) == 1


@pytest.mark.parametrize("ours", [True, False])
async def test_a_copy_of_what_met_the_brokers_limit_is_not_run(ours: bool) -> None:
    house = House()
    headers: dict[str, object] = {
        "x-death": [{"queue": "cron_scheduler.reports", "reason": "delivery_limit", "count": 1}]
    }
    due(house)
    [message] = house.messages("cron_scheduler")
    body = message.body if ours else foreign_body(house)
    await deliver(house, body, {**(message.headers if ours else {}), **headers})

    [execution] = house.executions()
    parked = house.messages(QUARANTINE_QUEUE)
    assert execution.state is State.PUBLISHED
    assert len(parked) == (not ours)
    assert all("than its queue allows" in str(one.headers) for one in parked)

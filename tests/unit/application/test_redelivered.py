"""Messages that end whoever reads them, before a run of theirs has begun.

C20 in docs/compatibility.md.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from cronhare.adapters.sql.attempts.store import SqlRedeliveryStore
from cronhare.adapters.sql.nodes import SqlNodeStore
from cronhare.application.redelivery import delay
from cronhare.application.worker import ledger, redelivered
from cronhare.domain.execution import State
from cronhare.domain.nodes import PRESUMED_DEAD_AFTER, NodeReport
from cronhare.domain.retries.outcome import Outcome
from cronhare.domain.topology import MAIN_QUEUE, QUARANTINE_QUEUE
from cronhare.ports.attempts import StartAnswer, StartRequest
from cronhare.ports.errors import LedgerUnavailable
from cronhare.ports.runner import Invocation
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import deliver, due, foreign_body
from tests.unit.application.endings import SUCCESS
from tests.unit.application.house import House

SECOND = timedelta(seconds=1)


async def taken_by(
    house: House, node: str, *, boot: str = "first"
) -> tuple[House, list[asyncio.Task[Any]]]:
    """Start a worker that is delivered what waits, and notes what of it came again."""
    house.boot = boot
    other = house.neighbour(node)
    house.boot = "first"
    await other.open()
    await other.settle()
    take = other.worker._redelivered.take
    taking = [asyncio.create_task(take(each)) for each in other.deliveries]  # and gets no further
    for _ in range(60):
        await asyncio.sleep(0)
    return other, taking


async def dies_of_it(house: House, node: str, *, boot: str = "first") -> None:
    """Let a worker die as it reads what waits; it takes no note back."""
    other, taking = await taken_by(house, node, boot=boot)
    for task in taking:
        task.cancel()
    await other.connection.close()
    house.clock.advance(SECOND)


async def all_die(house: House, *, times: int = 4, boot: str = "first") -> None:
    """Let so many workers die of it; the first of them cannot know that it came before."""
    for number in range(times):
        await dies_of_it(house, f"ant-{number + 10}", boot=boot)


def unavailable(*_: object, **__: object) -> None:
    raise LedgerUnavailable("gone away")


async def test_what_has_ended_its_workers_is_quarantined_and_not_run(lines: Lines) -> None:
    ran: list[Invocation] = []

    def note(invocation: Invocation) -> Outcome:
        ran.append(invocation)
        return SUCCESS

    house = House(script=note)
    due(house)

    await all_die(house)
    await house.open()
    await house.work()

    assert house.only.state is State.QUARANTINED
    assert ran == []
    [row] = house.records.archive()
    assert row.failed_reason == "ended its worker 3 times within 300 s, before a run had begun"
    assert row.pill is not None
    assert row.pill.crash_count == 3
    [parked] = house.messages(QUARANTINE_QUEUE)
    assert b'"poisonPillRecord":{"jobId":"' in parked.body
    assert any("Poison Pill Job Quarantined" in line for line in lines())


async def test_an_innocent_that_was_in_the_same_hands_runs() -> None:
    house = House()
    house.add("innocent", schedule="1 12 2 3 *")
    due(house)

    await all_die(house)
    await house.open()
    await house.work()

    first, second = sorted(house.executions(), key=lambda each: each.id)
    assert (first.state, second.state) == (State.QUARANTINED, State.SUCCEEDED)


async def test_a_foreign_one_is_parked_with_the_reason_and_not_adopted() -> None:
    house = House()
    house.add(schedule="0 0 1 1 *")
    house.publish(foreign_body(house), message_id="theirs")

    await all_die(house)
    await house.open()
    await house.work()

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert "it ended its worker 3 times" in str(parked.headers["cron-parked-because"])
    assert house.executions() == []


async def test_two_deaths_are_no_pill() -> None:
    house = House()
    due(house)

    await all_die(house, times=3)
    await house.open()
    await house.work()

    assert house.only.state is State.SUCCEEDED


async def test_shutdowns_do_not_count() -> None:
    house = House()
    due(house)

    for number in range(6):
        other = house.neighbour(f"ant-{number + 10}")
        await other.open()
        await other.settle()
        other.worker.drain()
        for delivery in other.deliveries:
            await other.worker.handle(delivery)
        await other.connection.close()
    await house.open()
    await house.work()

    assert house.only.state is State.SUCCEEDED


async def test_lost_connections_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "SHORT_PAUSES", ())
    monkeypatch.setattr(delay, "PAUSE", 0.0)
    house = House()
    due(house)
    house.outage.held.add(house.only.id)  # or the first of them would run it

    for number in range(6):
        other = house.neighbour(f"ant-{number + 10}")
        await other.open()
        await other.settle()
        house.outage.slow["start"] = house.broker.go_away  # with the message in hand
        [delivery] = other.deliveries
        assert delivery.redelivered == (number > 0)
        await other.worker.handle(delivery)
        house.broker.come_back()
        await other.connection.close()  # the message goes on to the next; this worker lives
    house.outage.held.clear()
    await house.open()
    await house.work()

    assert house.only.state is State.SUCCEEDED


def report(house: House) -> None:
    """Let a worker report itself."""
    node = NodeReport(
        name=house.node,
        role="worker",
        host=house.host,
        version="0.1.0",
        started_at=house.now,
        seen_at=house.now,
    )
    SqlNodeStore(house.engine, house.clock).report(node, kept_for=PRESUMED_DEAD_AFTER)


async def equal_in_many_hands(house: House) -> None:
    """Let five living workers take one each of equal messages that came again."""
    for _ in range(6):
        house.publish(foreign_body(house))
    lost = house.neighbour("ant-9")
    await lost.open()
    await lost.settle()
    await lost.connection.close()
    for number in range(5):
        other = house.neighbour(f"ant-{number + 10}")
        report(other)
        await other.connection.consume(
            [MAIN_QUEUE], prefetch=1, on_delivery=other.deliveries.append
        )
        await other.settle()
        for delivery in other.deliveries:
            assert await other.worker._redelivered.take(delivery) == ()


async def test_equal_messages_in_the_hands_of_living_workers_do_not_count() -> None:
    house = House()
    house.add(schedule="0 0 1 1 *")

    await equal_in_many_hands(house)
    await house.open()
    await house.work()

    assert house.messages(QUARANTINE_QUEUE) == []
    assert len(house.executions()) == 1


async def test_equal_messages_count_once_their_workers_are_silent() -> None:
    house = House()
    house.add(schedule="0 0 1 1 *")

    await equal_in_many_hands(house)
    house.clock.advance(PRESUMED_DEAD_AFTER + SECOND)
    await house.open()
    await house.work()

    assert len(house.messages(QUARANTINE_QUEUE)) == 1


async def test_a_note_that_a_living_worker_could_not_take_back_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House()
    due(house)
    for number in range(4):
        other, _ = await taken_by(house, f"ant-{number + 10}")
        report(other)
        with monkeypatch.context() as away:
            away.setattr(SqlRedeliveryStore, "let_go", unavailable)
            for delivery in other.deliveries:
                await other.worker._redelivered.let_go(delivery)
        await other.connection.close()
    await house.open()
    await house.work()

    assert house.only.state is State.SUCCEEDED


async def test_one_whose_row_is_held_keeps_no_other_that_came_again_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redelivered, "LONGEST_TURN", 0.01)
    house = House()
    house.add("innocent", schedule="1 12 2 3 *")
    due(house)
    other = house.neighbour("ant-9")
    await other.open()
    await other.settle()
    await other.connection.close()
    house.outage.begin("start", calls=1, heard=True)
    start, asked = house.attempts.start, list[int]()

    def start_and_hold(requests: Sequence[StartRequest], **rest: Any) -> Sequence[StartAnswer]:  # noqa: ANN401
        asked.extend(request.execution_id for request in requests)
        try:
            return start(requests, **rest)
        finally:
            house.outage.held.add(asked[0])

    monkeypatch.setattr(house.attempts, "start", start_and_hold)

    await house.open_wide()
    for _ in range(100):
        await asyncio.sleep(0.05)
        if State.SUCCEEDED in {one.state for one in house.executions()}:
            break

    states = {one.id: one.state for one in house.executions()}
    held = asked[0]
    assert not house.sql(
        "SELECT * FROM RedeliveryHold"
    )  # if the worker died now, it would not be of it
    assert states.pop(held) is State.RUNNING
    assert [*states.values()] == [State.SUCCEEDED]
    house.outage.held.clear()
    await house.work()


async def test_a_reboot_of_the_host_does_not_count() -> None:
    house = House()
    due(house)

    await all_die(house, boot="before")
    await house.open()
    await house.work()

    assert house.only.state is State.SUCCEEDED


async def test_deaths_of_long_ago_do_not_count() -> None:
    house = House()
    house.add(schedule="0 0 1 1 *")
    house.publish(foreign_body(house), message_id="theirs")

    await all_die(house)
    house.clock.advance(timedelta(minutes=5))
    await house.open()
    await house.work()
    await house.work()

    assert [each.state for each in house.executions()] == [State.SUCCEEDED]


async def test_who_runs_it_takes_its_note_back_and_leaves_the_rest_to_the_lease() -> None:
    house = House(holds=True)
    due(house)
    await dies_of_it(house, "ant-10")

    await house.open_wide()
    await house.settle()

    assert house.only.state is State.RUNNING
    assert not house.sql("SELECT * FROM RedeliveryHold")


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

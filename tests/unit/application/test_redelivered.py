"""Messages that end whoever reads them, before a run of theirs has begun.

C20 in docs/compatibility.md.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from cronhare.adapters.sql.nodes import SqlNodeStore, SqlRedeliveryStore
from cronhare.application.worker import foreign, ledger
from cronhare.domain.execution import State
from cronhare.domain.nodes import PRESUMED_DEAD_AFTER, NodeReport
from cronhare.domain.topology import QUARANTINE_QUEUE
from cronhare.ports import LedgerUnavailable
from cronhare.ports.broker import Delivery
from tests.ports import ids_of
from tests.unit.application.deliveries import deliver, due, foreign_body
from tests.unit.application.house import House, Inline

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
    over = asyncio.Event()

    async def take(delivery: Delivery) -> None:
        async with other.worker._notes.noted(delivery):
            await over.wait()  # and gets no further

    taking = [asyncio.create_task(take(each)) for each in other.deliveries]
    for _ in range(60):
        await asyncio.sleep(0)
    return other, taking


async def dies_of_it(house: House, node: str, *, boot: str = "first") -> None:
    """Let a worker die as it reads what waits; it takes no note back."""
    other, taking = await taken_by(house, node, boot=boot)
    with pytest.MonkeyPatch.context() as dead:
        for method in ("hold", "let_go"):
            dead.setattr(SqlRedeliveryStore, method, unavailable)
        for task in taking:
            task.cancel()
        await asyncio.gather(*taking, return_exceptions=True)
    await other.connection.close()
    house.clock.advance(SECOND)


async def all_die(house: House, *, times: int = 4, boot: str = "first") -> None:
    """Let so many workers die of it; the first of them cannot know that it came before."""
    for number in range(times):
        await dies_of_it(house, f"ant-{number + 10}", boot=boot)


def unavailable(*_: object, **__: object) -> None:
    raise LedgerUnavailable("gone away")


def strange(house: House, message_id: str = "theirs") -> None:
    """Have another program's message wait."""
    if not house.schedules.schedules(["report"]):
        house.add(schedule="0 0 1 1 *")
    house.publish(foreign_body(house), message_id=message_id)


async def test_one_that_ended_its_workers_is_parked_unread_and_its_neighbour_runs() -> None:
    house = House()
    strange(house)
    strange(house, "innocent")

    await all_die(house)
    await house.open()
    await house.work()

    [parked] = house.messages(QUARANTINE_QUEUE)
    reason = "it ended its worker 3 times within 300 s, before a run had begun"
    assert (parked.id, parked.headers["cron-parked-because"]) == ("theirs", reason)
    assert len(house.executions()) == 1


async def test_shutdowns_do_not_count() -> None:
    house = House()
    strange(house)

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

    assert len(house.executions()) == 1


async def test_lost_connections_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "SHORT_PAUSES", ())
    house = House()
    strange(house)
    held = ids_of(house.schedules, ["report"]).values()
    house.outage.held_schedules.update(held)  # or the first of them would adopt it

    for number in range(6):
        other = house.neighbour(f"ant-{number + 10}")
        await other.open()
        await other.settle()
        house.outage.slow["adopt"] = house.broker.go_away  # with the message in hand
        [delivery] = other.deliveries
        assert delivery.redelivered == (number > 0)
        await other.worker.handle(delivery)
        house.broker.come_back()
        await other.connection.close()  # the message goes on to the next; this worker lives
    house.outage.held_schedules.clear()
    await house.open()
    await house.work()

    assert len(house.executions()) == 1


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


async def test_one_that_waits_for_the_ledger_keeps_no_other_that_came_again_from_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreign, "LONGEST_TURN", 0.01)
    house = House()
    strange(house)
    strange(house, "innocent")
    await dies_of_it(house, "ant-10")  # so both come again
    house.sql("DELETE FROM RedeliveryHold")

    _, taking = await taken_by(house, "ant-11")
    await asyncio.sleep(0.1)

    async with asyncio.timeout(30):  # if it died after that, it were not of them
        while house.sql("SELECT * FROM RedeliveryHold"):  # noqa: ASYNC110 - rows tell nobody
            await asyncio.sleep(0.02)
    for task in taking:
        task.cancel()


class Silent(Inline):
    """A ledger that is asked, and gives no answer."""

    def __init__(self) -> None:
        self.asked = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401, ARG002
        self.asked += 1
        return Future()


async def with_silent_ledger(house: House, *, messages: int) -> Silent:
    """Have so many messages come again, beside a ledger that has become silent."""
    for number in range(messages):
        strange(house, f"theirs-{number}")
    await dies_of_it(house, "ant-10")
    house.executor = silent = Silent()
    return silent


async def test_a_shutdown_frees_at_once_who_waits_for_a_turn_and_nothing_more_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreign, "LONGEST_TURN", 30)
    house = House()
    silent = await with_silent_ledger(house, messages=3)
    other = house.neighbour("ant-11")
    await other.open()
    await other.settle()
    handling = [asyncio.create_task(other.worker.handle(each)) for each in other.deliveries]
    await other.settle()

    other.worker.drain()
    await other.settle()

    assert [task.done() for task in handling] == [False, True, True]
    assert silent.asked == 1  # by the one whose turn it was
    handling[0].cancel()


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

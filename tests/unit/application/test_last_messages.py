"""What follows an end for good reaches its queue, whoever dies or is away in between."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from cronhare.domain.execution import Graces, State
from cronhare.domain.messages import Signer
from cronhare.domain.retries.policy import Backoff, RetryPolicy
from cronhare.domain.topology import FAILED_QUEUE, QUARANTINE_QUEUE, ToFailed
from cronhare.ports import LedgerUnavailable
from cronhare.ports.broker import Envelope, Published
from tests.scripted_runner import Script
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import MINUTE, SECOND, begin, due, live, run
from tests.unit.application.endings import CRASH, always, failure
from tests.unit.application.house import LEASE, House
from tests.unit.application.test_failed_monitor import monitor
from tests.unit.application.test_reconcile import vanish

ONCE = RetryPolicy(attempts=1)
GRACE = Graces().ended


class Dead(BaseException):
    """The worker's end, at whatever place."""


def doomed(script: Script | None = None) -> House:
    return House(script=script or always(failure()), policy=ONCE, signer=Signer(("secret",)))


async def cut_off(house: House, dies: type[BaseException] | None = None) -> None:
    """Let the only run end, and let nobody know of its message."""

    async def publish(envelope: Envelope) -> Published:
        if dies is not None and envelope.message.id and envelope.message.id.endswith(":end"):
            raise dies
        return Published.UNKNOWN

    house.connection.publish = publish  # type: ignore[method-assign]
    await run(house)


async def test_what_is_confirmed_is_sent_once() -> None:
    house = doomed()
    await run(house)

    await live(house, 10 * GRACE, 10 * SECOND)

    assert len(house.messages(FAILED_QUEUE)) == 1
    assert [row.check_at for row in house.records.archive()] == [None]


async def test_what_is_not_confirmed_is_sent_again_and_is_the_same(lines: Lines) -> None:
    told, house = doomed(), doomed()
    await run(told)
    await cut_off(house)

    await live(house, GRACE)
    late = house.messages(FAILED_QUEUE)
    await live(house, 10 * GRACE, 10 * SECOND)

    first = told.messages(FAILED_QUEUE)
    assert late == first
    assert house.messages(FAILED_QUEUE) == []
    assert any("its message may be in no queue" in line for line in lines())


async def test_the_message_of_a_worker_that_died_before_it_could_send_it_comes() -> None:
    house = doomed()
    with pytest.raises(Dead):
        await cut_off(house, Dead)

    await house.restart_worker()
    await live(house, GRACE)

    assert (house.only.state, len(house.messages(FAILED_QUEUE))) == (State.FAILED, 1)
    assert house.worker.counters.fenced == 1


async def test_a_loss_that_was_heard_and_not_answered_is_told(lines: Lines) -> None:
    house = doomed()
    due(house)
    vanish(house)
    house.clock.advance(LEASE)
    house.outage.begin("give_up", calls=1, heard=True)
    with pytest.raises(LedgerUnavailable):
        house.reconciler.tick(house.now)

    await live(house, GRACE)

    assert (house.only.state, len(house.messages(FAILED_QUEUE))) == (State.FAILED, 1)
    [line] = [line for line in lines() if "Task failed for good" in line]
    assert "its worker gone-3 vanished" in line


async def test_what_is_quarantined_is_sent_with_its_record() -> None:
    policy = RetryPolicy(backoff=Backoff(delay=5_000))
    told, house = (House(script=always(CRASH), policy=policy) for _ in range(2))
    await run(told)
    await live(told, 20 * SECOND)
    await run(house)
    await live(house, 10 * SECOND)

    async def away(envelope: Envelope) -> Published:  # noqa: ARG001 - as the port names it
        return Published.UNKNOWN

    house.connection.publish = away  # type: ignore[method-assign]
    await live(house, MINUTE)

    assert house.only.state is State.QUARANTINED
    [late], [first] = house.messages(QUARANTINE_QUEUE), told.messages(QUARANTINE_QUEUE)
    assert (late.body, late.id) == (first.body, first.id)


async def test_while_the_broker_is_away_what_follows_an_end_waits(lines: Lines) -> None:
    house = House(holds=True, script=always(failure()), policy=ONCE)
    await begin(house)
    house.broker.go_away()
    house.runner.release(house.only.id)
    await house.settle()

    await live(house, 10 * GRACE, 10 * SECOND)
    too_early = [line for line in lines() if "in no queue: sending it" in line]
    house.broker.come_back()
    await live(house, GRACE)

    assert (too_early, len(house.messages(FAILED_QUEUE))) == ([], 1)


async def test_an_end_that_cannot_be_marked_is_sent_twice_and_holds_nobody_up() -> None:
    house = doomed()
    house.outage.begin("mark_ends_published", calls=1)
    await run(house)

    await live(house, GRACE)

    assert len(house.messages(FAILED_QUEUE)) == 2
    assert (house.deliveries, house.worker.counters.fenced) == ([], 0)


async def test_the_monitor_believes_what_comes_late(lines: Lines) -> None:
    house = doomed()
    await cut_off(house)
    await live(house, GRACE)

    await house.connection.close()
    house.connection = house.broker.connect()
    await house.connection.consume([FAILED_QUEUE], prefetch=1, on_delivery=house.deliveries.append)
    await house.settle()
    await monitor(house).handle(house.deliveries.pop())

    assert any("PERMANENTLY FAILED TASK" in line for line in lines())
    assert len(house.records.archive()) == 1


async def without_its_queue(house: House, for_so_long: timedelta) -> None:
    """Have the failed queue gone for a while; a scheduler alone sends what belongs there."""
    publish = house.broker.publish

    def returns(batch: Sequence[Envelope]) -> Sequence[Published]:
        return [
            Published.RETURNED if isinstance(each.to, ToFailed) else publish([each])[0]
            for each in batch
        ]

    house.broker.publish = returns  # type: ignore[method-assign]
    await live(house, for_so_long, 5 * SECOND)
    house.broker.publish = publish  # type: ignore[method-assign]

"""What follows an end for good reaches its queue, whoever dies or is away in between."""

import pytest

from cronhare.domain.execution import Graces, State
from cronhare.domain.messages import Signer
from cronhare.domain.retries.outcome import CrashPolicy, Outcome
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.topology import FAILED_QUEUE, QUARANTINE_QUEUE
from cronhare.ports.broker import Envelope, Published
from tests.scripted_runner import Script
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import SECOND, begin, live, run
from tests.unit.application.endings import CRASH, always, failure
from tests.unit.application.house import House

ONCE = RetryPolicy(attempts=1, crashes=CrashPolicy(limit=1))
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


@pytest.mark.parametrize(
    ("ends", "queue"), [(failure(), FAILED_QUEUE), (CRASH, QUARANTINE_QUEUE)], ids=["bad", "pill"]
)
async def test_what_is_not_confirmed_is_sent_again_and_is_the_same(
    ends: Outcome, queue: str, lines: Lines
) -> None:
    told, house = doomed(always(ends)), doomed(always(ends))
    await run(told)
    await cut_off(house)

    await live(house, GRACE)
    late = house.messages(queue)
    await live(house, 10 * GRACE, 10 * SECOND)

    first = told.messages(queue)
    assert late == first
    assert house.messages(queue) == []
    assert any("its message may be in no queue" in line for line in lines())


async def test_the_message_of_a_worker_that_died_before_it_could_send_it_comes() -> None:
    house = doomed()
    with pytest.raises(Dead):
        await cut_off(house, Dead)

    await house.restart_worker()
    await live(house, GRACE)

    assert (house.only.state, len(house.messages(FAILED_QUEUE))) == (State.FAILED, 1)
    assert house.worker.counters.fenced == 1


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

import pytest

from cronhare.application.parking import park
from cronhare.domain.topology import MAIN_QUEUE, QUARANTINE_QUEUE
from cronhare.ports.broker import Envelope, Published
from tests.unit.application.conftest import Lines
from tests.unit.application.house import House


async def park_one(house: House) -> None:
    """Park the one message that is in the queue."""
    await house.open()
    await house.settle()
    await house.connection.pause()
    await park(house.connection, house.deliveries.pop(), "because")


async def test_a_parked_message_keeps_its_bytes_its_headers_and_its_name(lines: Lines) -> None:
    house = House()
    x_death = [{"queue": MAIN_QUEUE, "reason": "rejected", "count": 1}]
    house.publish(b"\x00\xff", {"trace": "abc", "x-death": x_death}, message_id="17")

    await park_one(house)

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert (parked.body, parked.id) == (b"\x00\xff", "17")
    assert parked.headers == {"trace": "abc", "cron-parked-because": "because"}
    assert lines() == [f"[ERROR] Parked a message of {MAIN_QUEUE} in quarantine: because"]


@pytest.mark.parametrize("answer", [Published.RETURNED, Published.UNKNOWN])
async def test_what_may_not_have_been_parked_is_given_back(
    answer: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def publish(_: Envelope) -> Published:
        return answer

    house = House()
    house.publish(b"hello")
    monkeypatch.setattr(house.connection, "publish", publish)

    await park_one(house)

    assert house.broker.depth(MAIN_QUEUE) == 1

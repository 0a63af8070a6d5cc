"""Which messages are published apart from the others, and what is answered meanwhile."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from cronhare.adapters.rabbitmq import publisher
from cronhare.adapters.rabbitmq.client import Address
from cronhare.adapters.rabbitmq.publisher import Publisher
from cronhare.adapters.rabbitmq.publishing import Batch, Item
from cronhare.adapters.rabbitmq.wire import AmqpMessage
from cronhare.ports.broker import Published

CONFIRMED, REFUSED, UNKNOWN = Published.CONFIRMED, Published.REFUSED, Published.UNKNOWN


class FakeThread:
    """A thread that publishes nothing: what it was given waits until the test answers."""

    def __init__(
        self,
        _: Address,
        *,
        on_silence: Callable[[Sequence[Item]], None],
        on_refusal: Callable[[], None],
        on_answer: Callable[[Item], None] | None = None,
        **_more: Any,  # noqa: ANN401
    ) -> None:
        self.items: list[Item] = []
        self.is_there = True
        self.on_silence = on_silence
        self.on_refusal = on_refusal
        self._on_answer = on_answer

    def submit(self, batch: Batch, indices: Iterable[int]) -> None:
        self.items += [(batch, index) for index in indices]

    def refuse(self, target: str) -> None:
        for batch, index in self.items:
            if batch.messages[index].key == target:
                batch.settle(index, REFUSED)
        self.items = [item for item in self.items if item[0].wants(item[1])]

    def is_available(self) -> bool:
        return self.is_there

    @property
    def is_idle(self) -> bool:
        return not self.items

    def close(self) -> None:
        pass

    @property
    def targets(self) -> list[str]:
        return [batch.messages[index].key for batch, index in self.items]

    def answer(self) -> None:
        """Confirm the first of what waits."""
        batch, index = self.items.pop(0)
        if self._on_answer is not None:
            self._on_answer((batch, index))
        batch.settle(index, CONFIRMED)

    def hang(self) -> None:
        """Fall silent over the first of what waits."""
        self.on_silence([self.items.pop(0)])


class House:
    """A publisher, its two threads, and its clock."""

    def __init__(self, threads: list[FakeThread]) -> None:
        self.now = 100.0
        self.publisher = Publisher(Address.parse("amqp://h/"), None, level=0)
        self.main, self.apart = threads

    def suspect(self, *targets: str) -> None:
        batch = Batch([message(target) for target in targets])
        self.main.on_silence([(batch, index) for index in range(len(targets))])

    def publish(self, *targets: str) -> Batch:
        return self.publisher.submit([message(target) for target in targets])


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    threads: list[FakeThread] = []

    def thread(address: Address, **how: Any) -> FakeThread:  # noqa: ANN401
        threads.append(FakeThread(address, **how))
        return threads[-1]

    monkeypatch.setattr(publisher, "PublisherThread", thread)
    house = House(threads)
    monkeypatch.setattr(time, "monotonic", lambda: house.now)
    return house


def message(target: str, *, exchange: str = "") -> AmqpMessage:
    return AmqpMessage(exchange=exchange, key=target, body=b"", properties=b"", id=None)


def test_a_suspect_is_published_to_apart_until_it_answers(house: House) -> None:
    house.suspect("a")

    batch = house.publish("a", "b")
    split = (house.main.targets, house.apart.targets)
    house.apart.answer()
    house.main.answer()
    house.publish("a")

    assert split == (["b"], ["a"])
    assert batch.outcomes() == [CONFIRMED, CONFIRMED]
    assert (house.main.targets, house.apart.targets) == (["a"], [])


def test_what_waits_for_one_that_hangs_is_refused_and_others_are_not(house: House) -> None:
    house.suspect("bad", "good")
    batch = house.publish("bad", "bad", "good")

    house.apart.hang()
    house.apart.answer()

    assert batch.outcomes() == [REFUSED, REFUSED, CONFIRMED]


def test_one_that_hangs_is_tried_ever_more_rarely_and_is_refused_meanwhile(house: House) -> None:
    house.suspect("bad")
    house.publish("bad")
    tries = 0
    for _ in range(1000):
        if house.apart.items:
            tries += 1
            house.apart.hang()
        house.now += 0.1
        assert house.publish("bad").outcomes() in ([REFUSED], [UNKNOWN])

    assert 8 < tries < 15


def test_one_that_has_hung_is_tried_only_when_nobody_waits_behind_it(house: House) -> None:
    house.suspect("bad", "good")
    house.publish("bad")
    house.apart.hang()
    house.now += 60

    house.publish("good")
    behind = house.publish("bad").outcomes()
    house.apart.answer()
    house.publish("bad")

    assert behind == [REFUSED]
    assert house.apart.targets == ["bad"]


@pytest.mark.parametrize("is_refused", [False, True])
def test_who_cannot_be_tried_apart_goes_with_the_others_again(
    house: House, *, is_refused: bool
) -> None:
    """A broker may allow no further connection, or miss an exchange, which the others declare."""
    house.suspect("a")
    if is_refused:
        house.apart.on_refusal()
    else:
        house.apart.is_there = False

    house.publish("a")

    assert (house.main.targets, house.apart.targets) == (["a"], [])


def test_while_the_broker_is_away_nothing_is_tried_apart(house: House) -> None:
    house.suspect("a")
    house.main.is_there = False

    batch = house.publish("a")

    assert (house.main.targets, house.apart.targets) == ([], [])
    assert batch.outcomes() == [UNKNOWN]


def test_a_call_waits_for_a_suspect_no_longer_than_it_may(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "MOST_WAITED", 0.01)
    house.suspect("a")

    assert house.publisher.publish([message("a")], within=60) == [REFUSED]


def test_a_lane_is_a_target_of_its_own(house: House) -> None:
    lane = message("0.1.a", exchange="cron_delay.00")
    house.main.on_silence([(Batch([lane]), 0)])

    house.publish("0.1.a", "a")
    house.publisher.submit([message("0.1.b", exchange="cron_delay.00")])

    assert (house.main.targets, house.apart.targets) == (["0.1.a", "a"], ["0.1.b"])

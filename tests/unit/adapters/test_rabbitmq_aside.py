"""Who is tried apart, in which order, and what the others hear meanwhile."""

import threading
from typing import Any, cast

import pytest

from cronhare.adapters.rabbitmq import aside
from cronhare.adapters.rabbitmq.aside import FIRST_CONFIRM, Aside
from cronhare.adapters.rabbitmq.messages import Parcel
from cronhare.adapters.rabbitmq.sending import Sender
from cronhare.adapters.rabbitmq.window import Batch
from cronhare.ports.broker import Published

CONFIRMED, REFUSED, UNKNOWN = Published.CONFIRMED, Published.REFUSED, Published.UNKNOWN


class Line:
    """A sender whose broker confirms all until something comes for a queue that hangs."""

    def __init__(self, house: "House") -> None:
        self._house = house
        self._is_silent = False

    def submit(self, batch: Batch) -> None:
        while self._house.is_there and not batch.is_out:
            index = batch.next()
            road = batch.parcels[index].key
            self._house.tried.append(road)
            self._is_silent |= road in self._house.hanging
            if not self._is_silent and not self._house.is_slow:
                batch.settle(index, CONFIRMED)
        if self._house.is_slow and batch.parcels:
            self._house.open.append(batch)
            return
        self._house.now += 0.0 if not self._is_silent else FIRST_CONFIRM
        batch.give_up()

    def close(self) -> None:
        self._house.closed.set()


class House:
    """An aside on a clock of its own."""

    def __init__(self) -> None:
        self.now = 100.0
        self.is_there = True
        self.is_slow = False
        self.open: list[Batch] = []
        self.hanging = set[str]()
        self.tried: list[str] = []
        self.closed = threading.Event()
        self.aside = Aside(lambda: cast("Sender", Line(self)), monotonic=lambda: self.now)

    def suspect(self, *roads: str) -> None:
        self.aside.suspect([parcel(road) for road in roads])

    def publish(self, *roads: str) -> list[Published]:
        return [*self.aside.publish([parcel(road) for road in roads], timeout=9)]

    def suspected(self, *roads: str) -> list[bool]:
        return [*self.aside.takes([parcel(road) for road in roads])]


@pytest.fixture
def house() -> House:
    return House()


def parcel(road: str, **changes: Any) -> Parcel:  # noqa: ANN401
    return Parcel(
        **{"exchange": "", "key": road, "body": b"", "headers": {}, "id": None, **changes}
    )


def test_who_answers_is_suspected_no_more(house: House) -> None:
    house.suspect("a", "b")
    before = house.suspected("a", "b", "c")

    answers = house.publish("a", "a", "b")

    assert before == [True, True, False]
    assert answers == [CONFIRMED] * 3
    assert house.suspected("a", "b", "c") == []


def test_who_hangs_loses_its_connection_and_keeps_nobody_waiting(house: House) -> None:
    house.hanging = {"bad"}
    house.suspect("bad", "good")

    answers = house.publish("bad", "bad", "good")

    assert answers == [REFUSED, REFUSED, CONFIRMED]
    assert house.tried == ["bad", "good"]
    assert house.closed.wait(60)
    assert house.suspected("bad", "good") == [True, False]


def test_who_hangs_is_tried_ever_more_rarely_and_is_refused_meanwhile(house: House) -> None:
    house.hanging = {"bad"}
    house.suspect("bad")

    answers = [house.publish("bad") for _ in range(100)]

    assert answers == [[REFUSED]] * 100
    assert house.tried == ["bad"]
    house.now += 60
    house.hanging = set()
    assert house.publish("bad") == [CONFIRMED]
    assert house.suspected("bad") == []


def test_who_is_slow_is_heard_by_the_next_call_and_loses_no_connection(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "FIRST_CONFIRM", 0.001)
    house.is_slow = True
    house.suspect("main")

    first = [house.publish("main", "main"), house.publish("main", "main")]
    house.is_slow = False
    [batch] = house.open
    batch.settle(0, CONFIRMED)
    later = house.publish("main", "main")

    assert (first, later) == ([[REFUSED] * 2] * 2, [CONFIRMED] * 2)
    assert house.tried == ["main"] * 3
    assert not house.closed.is_set()
    assert house.suspected("main") == []


def test_of_many_that_hang_few_are_waited_for_at_a_time(house: House) -> None:
    house.hanging = {f"bad-{n}" for n in range(5)}
    house.suspect(*sorted(house.hanging), "good")

    first = house.publish(*sorted(house.hanging), "good")
    second = house.publish(*sorted(house.hanging), "good")

    assert (first, second) == ([REFUSED] * 6, [REFUSED] * 5 + [CONFIRMED])
    assert house.tried[:3] == ["bad-0", "bad-1", "bad-2"]
    assert {*house.tried[3:6]} == {"bad-3", "bad-4", "good"}


def test_while_there_is_no_connection_nobody_hangs(house: House) -> None:
    house.suspect("a")
    house.is_there = False

    away = house.publish("a", "a")
    house.is_there = True

    assert away == [UNKNOWN, UNKNOWN]
    assert house.publish("a", "a") == [CONFIRMED, CONFIRMED]


def test_a_lane_is_a_road_of_its_own(house: House) -> None:
    house.aside.suspect([parcel("0.1.a", exchange="cron_delay.00")])

    assert house.suspected("0.1.a", "a") == [False, False]
    assert house.aside.takes([parcel("0.1.b", exchange="cron_delay.00")]) == [True]

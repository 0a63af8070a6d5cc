"""Who is tried apart, in which order, and what the others hear meanwhile."""

from typing import Any, cast

import pytest

from cronhare.adapters.rabbitmq.aside import FIRST_CONFIRM, RECONNECTS_IN, Aside
from cronhare.adapters.rabbitmq.messages import Parcel
from cronhare.adapters.rabbitmq.sending import Sender
from cronhare.adapters.rabbitmq.window import Batch
from cronhare.ports.broker import Published

CONFIRMED, REFUSED, UNKNOWN = Published.CONFIRMED, Published.REFUSED, Published.UNKNOWN


class Line:
    """A sender whose broker confirms all but what is for the queues that hang."""

    def __init__(self) -> None:
        self.hangs = set[str]()
        self.is_away = self.connects = False
        self.tried: list[str] = []

    def is_hopeful(self) -> bool:
        return not self.is_away

    def submit(self, batch: Batch) -> None:
        while not batch.is_out and not self.connects:
            index = batch.next()
            road = batch.parcels[index].key
            self.tried.append(road)
            if road not in self.hangs:
                batch.settle(index, CONFIRMED)
        if not batch.parcels or self.hangs or self.connects:
            batch.give_up()


class House:
    def __init__(self) -> None:
        self.now = 100.0
        self.line = Line()
        self.aside = Aside(lambda: cast("Sender", self.line), monotonic=lambda: self.now)

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


def test_who_hangs_is_tried_after_all_others_and_ever_more_rarely(house: House) -> None:
    house.line.hangs = {"bad"}
    house.suspect("bad", "good")

    first = house.publish("bad", "bad", "good")
    at_once = house.publish("bad", "good")
    house.now += RECONNECTS_IN
    later = house.publish("bad", "good")

    assert first == [UNKNOWN, UNKNOWN, REFUSED]  # its connection is to be given up first
    assert at_once == [REFUSED, REFUSED]
    assert later == [UNKNOWN, CONFIRMED]
    assert house.line.tried == ["bad", "good", "bad"]
    assert house.suspected("bad", "good") == [True, False]


def test_while_the_connection_is_away_nobody_hangs(house: House) -> None:
    house.suspect("a")
    house.line.is_away = True
    away = house.publish("a", "a")
    house.line.is_away, house.line.connects = False, True
    connecting = house.publish("a")
    house.line.connects = False
    house.now += RECONNECTS_IN

    assert (away, connecting) == ([UNKNOWN, UNKNOWN], [UNKNOWN])
    assert house.publish("a") == [CONFIRMED]


def test_a_lane_is_a_road_of_its_own(house: House) -> None:
    house.aside.suspect([parcel("0.1.a", exchange="cron_delay.00")])

    assert house.suspected("0.1.a", "a") == [False, False]
    assert house.aside.takes([parcel("0.1.b", exchange="cron_delay.00")]) == [True]


def test_a_suspect_has_less_time_than_a_connection_needs_to_be_given_up() -> None:
    assert FIRST_CONFIRM * 2 < RECONNECTS_IN

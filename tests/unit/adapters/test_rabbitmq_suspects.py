"""Which suspects are probed, in which order, and what is answered meanwhile."""

import threading
from typing import Any, cast

import pytest

from cronhare.adapters.rabbitmq.publisher import suspects
from cronhare.adapters.rabbitmq.publisher.confirms import Batch
from cronhare.adapters.rabbitmq.publisher.suspects import PROBE_TIMEOUT, SuspectPublisher
from cronhare.adapters.rabbitmq.publisher.thread import PublisherThread
from cronhare.adapters.rabbitmq.wire.messages import AmqpMessage
from cronhare.ports.broker import Published

CONFIRMED, REFUSED, UNKNOWN = Published.CONFIRMED, Published.REFUSED, Published.UNKNOWN


class FakePublisher:
    """A publisher whose broker confirms all until something comes for a queue that hangs."""

    def __init__(self, house: "House") -> None:
        self.tried: list[str] = []
        self.closed = threading.Event()
        self.is_ending = False
        self.was_blocked = False
        self.was_refused = False
        self._house = house
        self._is_silent = False

    def submit(self, batch: Batch) -> None:
        while self._house.is_there and not self.is_ending and not batch.is_out:
            index = batch.next()
            target = batch.messages[index].key
            self.tried.append(target)
            self._is_silent |= target in self._house.hanging
            if not self._is_silent and not self._house.is_slow:
                batch.settle(index, CONFIRMED)
        if self._house.is_slow and batch.messages:
            self._house.open.append(batch)
            return
        if self._is_silent:
            self._house.now += PROBE_TIMEOUT
            self._house.suspect_publisher.suspect(batch.messages)
        batch.give_up()

    def retire(self) -> None:
        self.is_ending = True

    def close(self) -> None:
        self.is_ending = True
        self.closed.set()

    def close_in_background(self) -> threading.Thread:
        thread = threading.Thread(target=self.close)
        thread.start()
        return thread


class House:
    """A `SuspectPublisher` on a clock of its own."""

    def __init__(self) -> None:
        self.now = 100.0
        self.is_there = True
        self.is_slow = False
        self.open: list[Batch] = []
        self.hanging = set[str]()
        self.publishers: list[FakePublisher] = []
        self.suspect_publisher = SuspectPublisher(self._connect, monotonic=lambda: self.now)

    @property
    def tried(self) -> list[str]:
        return [target for publisher in self.publishers for target in publisher.tried]

    def _connect(self) -> PublisherThread:
        self.publishers.append(FakePublisher(self))
        return cast("PublisherThread", self.publishers[-1])

    def answer(self, outcome: Published = CONFIRMED) -> None:
        """Let all that is under way have its answer."""
        for batch in self.open:
            batch.settle(0, outcome)
        self.open.clear()

    def suspect(self, *targets: str) -> None:
        self.suspect_publisher.suspect([message(target) for target in targets])

    def publish(self, *targets: str) -> list[Published]:
        """Ask what is suspected and publish it, as a broker does."""
        messages = [message(target) for target in targets]
        self.suspect_publisher.are_suspect(messages)
        return [*self.suspect_publisher.publish(messages, timeout=9)]

    def suspected(self, *targets: str) -> list[bool]:
        return [*self.suspect_publisher.are_suspect([message(target) for target in targets])]


@pytest.fixture
def house() -> House:
    return House()


def message(target: str, **changes: Any) -> AmqpMessage:  # noqa: ANN401
    return AmqpMessage(
        **{"exchange": "", "key": target, "body": b"", "headers": {}, "id": None, **changes}
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
    assert house.publishers[0].closed.wait(60)
    assert [publisher.is_ending for publisher in house.publishers] == [True, False]
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


@pytest.fixture
def slow(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """One whose broker confirms nothing until `answer` is called."""
    monkeypatch.setattr(suspects, "PROBE_TIMEOUT", 0.001)
    house.is_slow = True
    return house


def test_who_is_slow_is_heard_by_the_next_call_and_loses_no_connection(slow: House) -> None:
    slow.suspect("main")

    first = [slow.publish("main", "main"), slow.publish("main", "main")]
    slow.is_slow = False
    slow.answer()
    later = slow.publish("main", "main")

    assert (first, later) == ([[REFUSED] * 2] * 2, [CONFIRMED] * 2)
    assert slow.tried == ["main"] * 3
    [publisher] = slow.publishers
    assert not publisher.closed.is_set()
    assert slow.suspected("main") == []


def test_while_one_is_waited_for_the_next_is_asked_on_another_connection(slow: House) -> None:
    slow.suspect("a", "b")

    slow.publish("a")
    slow.publish("b")

    assert [publisher.tried for publisher in slow.publishers] == [["a"], ["b"]]


def test_eight_are_asked_at_a_time_and_all_are_heard_though_nothing_is_for_them(
    slow: House,
) -> None:
    targets = [f"target-{n:02}" for n in range(20)]
    slow.suspect(*targets)

    for _ in range(3):
        slow.publish(*targets)
    asked = slow.tried
    slow.answer()
    slow.publish()

    assert asked == targets[:8]
    assert slow.suspected(*targets) == [False] * 8 + [True] * 12
    assert [publisher.closed.wait(60) for publisher in slow.publishers[1:]] == [True] * 7
    assert not slow.publishers[0].closed.is_set()


def test_the_end_closes_every_connection_whatever_is_under_way_on_it(slow: House) -> None:
    slow.suspect("a", "b")
    slow.publish("a", "b")
    slow.is_slow = False
    slow.suspect("c")
    slow.publish("c")

    slow.suspect_publisher.close()

    assert [publisher.closed.is_set() for publisher in slow.publishers] == [True] * 3


def test_nobody_is_to_blame_for_an_alarm(slow: House, caplog: pytest.LogCaptureFixture) -> None:
    slow.suspect("a")
    slow.publish("a")
    slow.publishers[0].was_blocked = True
    slow.answer(UNKNOWN)
    slow.is_slow = False

    answers = slow.publish("a", "a")

    assert answers == [CONFIRMED] * 2
    assert [publisher.tried for publisher in slow.publishers] == [["a"], ["a", "a"]]
    assert slow.publishers[0].closed.wait(60)
    assert not caplog.records


def test_one_whose_connections_are_lost_is_left_out_and_told(
    slow: House, caplog: pytest.LogCaptureFixture
) -> None:
    slow.suspect("a")
    slow.publish("a")
    slow.answer(UNKNOWN)

    answers = [slow.publish("a") for _ in range(20)]

    assert answers == [[REFUSED]] * 20
    assert slow.tried == ["a"]
    [record] = caplog.records
    assert "its connection is lost" in record.getMessage()


def test_after_the_end_nothing_is_published(house: House) -> None:
    house.suspect("a")
    house.suspect_publisher.close()

    assert house.publish("a", "b") == [UNKNOWN, UNKNOWN]
    assert house.tried == []
    assert all(publisher.closed.is_set() for publisher in house.publishers)


def test_what_hangs_while_it_is_published_takes_its_connection_along(house: House) -> None:
    house.hanging = {"bad"}

    answers = [house.publish("bad"), house.publish("good")]

    assert answers == [[UNKNOWN], [CONFIRMED]]
    assert [publisher.tried for publisher in house.publishers] == [["bad"], ["good"]]


def test_who_has_answered_meanwhile_is_served_on_the_same_connection(house: House) -> None:
    answers = [house.publish("a", "b"), house.publish("a")]

    assert answers == [[CONFIRMED] * 2, [CONFIRMED]]
    assert [publisher.tried for publisher in house.publishers] == [["a", "b", "a"]]


def test_of_many_that_hang_few_are_waited_for_at_a_time(house: House) -> None:
    house.hanging = {f"bad-{n}" for n in range(5)}
    house.suspect(*sorted(house.hanging), "good")

    first = house.publish(*sorted(house.hanging), "good")
    second = house.publish(*sorted(house.hanging), "good")

    assert (first, second) == ([REFUSED] * 6, [REFUSED] * 5 + [CONFIRMED])
    assert house.tried[:3] == ["bad-0", "bad-1", "bad-2"]
    assert {*house.tried[3:6]} == {"bad-3", "bad-4", "good"}


def test_who_cannot_be_judged_apart_goes_with_the_others_again(house: House) -> None:
    """A broker may allow no further connection."""
    house.suspect("a")
    house.is_there = False

    answers = [house.publish("a", "a") for _ in range(2)]
    before = house.suspected("a")
    house.publish("a")

    assert answers == [[UNKNOWN] * 2] * 2
    assert (before, house.suspected("a")) == ([True], [])
    assert [publisher.closed.wait(60) for publisher in house.publishers] == [True] * 3
    house.is_there = True
    assert house.publish("a") == [CONFIRMED]


def test_an_idle_connection_that_was_lost_acquits_nobody(house: House) -> None:
    house.publish("good")
    house.suspect("a")
    house.is_there = False
    lost = house.publish("a")
    house.is_there = True

    for _ in range(2):
        house.suspect("b")
        house.publish("b")

    assert lost == [UNKNOWN]
    assert house.suspected("a") == [True]


def test_a_lane_is_a_target_of_its_own(house: House) -> None:
    house.suspect_publisher.suspect([message("0.1.a", exchange="cron_delay.00")])

    assert house.suspected("0.1.a", "a") == [False, False]
    assert house.suspect_publisher.are_suspect([message("0.1.b", exchange="cron_delay.00")]) == [
        True
    ]

"""The manners of the in-memory broker that its ports do not promise: time, deaths, the edge."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.topology import LANE_UNIT, MAIN_QUEUE, RETRY_QUEUE, ToQueue
from cronhare.ports.broker import BrokerPort, Delivery, Envelope, Message, Published
from tests.frozen_clock import FrozenClock
from tests.ports import ReadableBroker
from tests.trial_broker import TrialBroker

START = datetime(2026, 3, 28, 12, 0, 0, 700_000, tzinfo=UTC)
RETRY_DELAY = timedelta(seconds=30)
A_DAY = timedelta(days=1)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(START)


@pytest.fixture
def broker(clock: FrozenClock) -> TrialBroker:
    return TrialBroker(clock, retry_delay=RETRY_DELAY)


def _publish(
    broker: BrokerPort,
    body: bytes = b"task",
    *,
    delay: timedelta = timedelta(0),
    headers: Mapping[str, object] | None = None,
) -> Published:
    message = Message(body=body, headers=headers or {})
    (answer,) = broker.publish([Envelope(message, ToQueue(delay=delay))])
    return answer


def _receive(broker: ReadableBroker) -> Delivery:
    delivery = broker.receive(MAIN_QUEUE)
    assert delivery is not None
    return delivery


def _times(delivery: Delivery) -> list[datetime]:
    deaths = delivery.message.headers["x-death"]
    assert isinstance(deaths, list)
    return [death["time"] for death in deaths]


# Time


@given(st.integers(1, 2**16 - 1))
def test_every_delay_ends_to_the_microsecond(units: int) -> None:
    clock = FrozenClock(START)
    broker = TrialBroker(clock)
    _publish(broker, delay=LANE_UNIT * units)

    clock.advance(LANE_UNIT * units - timedelta(microseconds=1))
    early = broker.depth(MAIN_QUEUE)
    clock.advance(timedelta(microseconds=1))

    assert (early, broker.depth(MAIN_QUEUE)) == (0, 1)


def test_a_far_jump_dates_each_hop_at_its_own_time(broker: TrialBroker, clock: FrozenClock) -> None:
    _publish(broker, delay=timedelta(seconds=7.2))  # lanes 6 (6.4 s) and 3 (0.8 s)

    clock.advance(A_DAY)

    whole = START.replace(microsecond=0)
    assert _times(_receive(broker)) == [
        whole + timedelta(seconds=7),  # 12:00:07.9
        whole + timedelta(seconds=7),  # 12:00:07.1
    ]


def test_a_far_jump_delivers_in_the_order_in_which_the_delays_end(
    broker: TrialBroker, clock: FrozenClock
) -> None:
    for seconds in (120, 30, 60):
        _publish(broker, b"%d" % seconds, delay=timedelta(seconds=seconds))

    clock.advance(A_DAY)

    assert [_receive(broker).message.body for _ in range(3)] == [b"30", b"60", b"120"]


def test_a_clock_that_is_set_back_holds_nothing_up(broker: TrialBroker, clock: FrozenClock) -> None:
    _publish(broker, delay=timedelta(seconds=30))

    clock.move_to(START - A_DAY)
    clock.advance(timedelta(seconds=30))

    assert broker.depth(MAIN_QUEUE) == 1


def test_a_message_in_hand_does_not_expire_but_does_once_it_is_given_back(
    broker: TrialBroker, clock: FrozenClock
) -> None:
    _publish(broker)
    broker.nack(_receive(broker))
    held = broker.receive(RETRY_QUEUE)
    assert held is not None

    clock.advance(A_DAY)
    while_held = broker.depth(MAIN_QUEUE)
    broker.nack(held, requeue=True)

    assert (while_held, broker.depth(MAIN_QUEUE)) == (0, 1)
    returned = START.replace(microsecond=0) + A_DAY
    assert _times(_receive(broker))[0] == returned


def test_messages_of_a_queue_expire_in_order_each_at_its_own_time(
    broker: TrialBroker, clock: FrozenClock
) -> None:
    for body in (b"one", b"two", b"three"):
        _publish(broker, body)
        broker.nack(_receive(broker))
        clock.advance(timedelta(seconds=10))

    clock.advance(timedelta(seconds=10))

    assert broker.depth(RETRY_QUEUE) == 1
    assert [_receive(broker).message.body for _ in range(2)] == [b"one", b"two"]


# Dead letters


def test_a_republished_death_header_makes_a_cycle_and_loses_the_message(
    broker: TrialBroker, clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    half_a_second = timedelta(milliseconds=500)
    _publish(broker, delay=half_a_second)
    clock.advance(half_a_second)
    copied = _receive(broker).message.headers

    with caplog.at_level(logging.WARNING):
        answer = _publish(broker, b"copy", delay=half_a_second, headers=copied)
        clock.advance(A_DAY)

    assert answer is Published.CONFIRMED
    assert broker.receive(MAIN_QUEUE) is None
    assert [add_death.__dict__["action"] for add_death in caplog.records] == [
        "broker.cycle_dropped"
    ]


def test_the_death_of_a_repeated_nack_keeps_the_time_of_the_first(
    broker: TrialBroker, clock: FrozenClock
) -> None:
    _publish(broker)

    for _ in range(3):
        broker.nack(_receive(broker))
        clock.advance(RETRY_DELAY)

    first = START.replace(microsecond=0)
    assert _times(_receive(broker)) == [first + RETRY_DELAY, first]


# The edge


@pytest.mark.parametrize("value", [(1, 2), {1}, object(), [timedelta(0)]])
def test_a_header_that_amqp_cannot_carry_is_refused(broker: TrialBroker, value: object) -> None:
    with pytest.raises(TypeError, match="header deep: AMQP cannot carry"):
        _publish(broker, headers={"table": {"deep": value}})


# Giving back


def test_messages_take_their_old_places_in_whatever_order_they_are_given_back(
    broker: TrialBroker,
) -> None:
    for body in (b"1", b"2", b"3", b"4"):
        _publish(broker, body)
    first, second, third = (_receive(broker) for _ in range(3))

    for delivery in (second, third, first):
        broker.nack(delivery, requeue=True)

    assert [_receive(broker).message.body for _ in range(4)] == [b"1", b"2", b"3", b"4"]

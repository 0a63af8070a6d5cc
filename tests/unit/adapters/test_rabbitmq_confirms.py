"""The bookkeeping of messages that are published and not yet confirmed."""

import threading

import pytest

from cronhare.adapters.rabbitmq.publisher.confirms import Batch, Window
from cronhare.adapters.rabbitmq.wire.messages import AmqpMessage
from cronhare.ports.broker import Published

CONFIRMED, RETURNED, UNKNOWN = Published.CONFIRMED, Published.RETURNED, Published.UNKNOWN


def message(body: bytes = b"", *, key: str = "q") -> AmqpMessage:
    return AmqpMessage(exchange="", key=key, body=body, headers={}, id=None)


def batch_of(count: int) -> Batch:
    return Batch([message(b"%d" % n) for n in range(count)])


def publish_all(window: Window, batch: Batch) -> None:
    while not batch.is_out:
        window.publish(batch, batch.next())


def test_one_word_of_the_broker_can_confirm_many() -> None:
    window, batch = Window(10), batch_of(4)
    publish_all(window, batch)

    window.confirm(3, multiple=True, outcome=CONFIRMED)

    assert batch.wait(0) == [CONFIRMED, CONFIRMED, CONFIRMED, UNKNOWN]


def test_confirms_may_come_in_any_order() -> None:
    window, batch = Window(10), batch_of(3)
    publish_all(window, batch)

    for tag in (2, 3, 1):
        window.confirm(tag, multiple=False, outcome=CONFIRMED)

    assert batch.wait(0) == [CONFIRMED] * 3


def test_a_refusal_leaves_it_open_what_became_of_a_message() -> None:
    window, batch = Window(10), batch_of(2)
    publish_all(window, batch)

    window.confirm(1, multiple=False, outcome=UNKNOWN)
    window.confirm(2, multiple=False, outcome=CONFIRMED)

    assert batch.wait(0) == [UNKNOWN, CONFIRMED]


def test_a_confirm_after_a_return_confirms_the_return() -> None:
    window, batch = Window(10), batch_of(3)
    publish_all(window, batch)

    window.give_back(exchange="", key="q", id=None, body=b"1")
    window.confirm(3, multiple=True, outcome=CONFIRMED)

    assert batch.wait(0) == [CONFIRMED, RETURNED, CONFIRMED]


def test_each_of_two_equal_messages_is_returned_once() -> None:
    window, batch = Window(10), Batch([message(), message(), message(key="other")])
    publish_all(window, batch)

    for _ in range(3):  # one more than there are
        window.give_back(exchange="", key="q", id=None, body=b"")
    window.confirm(3, multiple=True, outcome=CONFIRMED)

    assert batch.wait(0) == [RETURNED, RETURNED, CONFIRMED]


def test_the_window_has_room_again_after_a_confirm() -> None:
    window, batch = Window(2), batch_of(3)

    window.publish(batch, batch.next())
    window.publish(batch, batch.next())
    full = window.has_room
    window.confirm(1, multiple=False, outcome=CONFIRMED)

    assert (full, window.has_room) == (False, True)


def test_a_lost_channel_leaves_everything_under_way_unknown_at_once() -> None:
    window, batch = Window(10), batch_of(2)
    publish_all(window, batch)
    window.confirm(1, multiple=False, outcome=CONFIRMED)

    window.lose()

    assert batch.wait(60) == [CONFIRMED, UNKNOWN]
    assert window.has_room


def test_what_nobody_waits_for_any_more_is_not_published() -> None:
    batch = batch_of(2)

    batch.wait(0)

    assert batch.is_out


@pytest.mark.parametrize("count", [1, 3])
def test_a_waiting_thread_goes_on_with_the_last_confirm(count: int) -> None:
    window, batch = Window(10), batch_of(count)
    publish_all(window, batch)
    answers: list[list[Published]] = []
    waiting = threading.Thread(target=lambda: answers.append(batch.wait(60)))
    waiting.start()

    window.confirm(count, multiple=True, outcome=CONFIRMED)
    waiting.join(10)

    assert answers == [[CONFIRMED] * count]

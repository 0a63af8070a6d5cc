"""The bookkeeping of messages that are published and not yet confirmed."""

import threading

import pytest

from cronhare.adapters.rabbitmq.publishing import Batch, Window
from cronhare.adapters.rabbitmq.wire import AmqpMessage
from cronhare.ports.broker import Published

CONFIRMED, RETURNED, UNKNOWN = Published.CONFIRMED, Published.RETURNED, Published.UNKNOWN


def message(body: bytes = b"", *, key: str = "q") -> AmqpMessage:
    return AmqpMessage(exchange="", key=key, body=body, properties=b"", id=None)


def batch_of(count: int) -> Batch:
    return Batch([message(b"%d" % n) for n in range(count)])


def publish_all(window: Window, batch: Batch) -> None:
    for index in range(len(batch.messages)):
        window.publish(batch, index)


def test_one_word_of_the_broker_can_confirm_many() -> None:
    window, batch = Window(10), batch_of(4)
    publish_all(window, batch)

    window.confirm(3, multiple=True, outcome=CONFIRMED)

    assert batch.outcomes() == [CONFIRMED, CONFIRMED, CONFIRMED, UNKNOWN]


def test_each_of_two_equal_messages_is_returned_once() -> None:
    window, batch = Window(10), Batch([message(), message(), message(key="other")])
    publish_all(window, batch)

    for _ in range(3):  # one more than there are
        window.give_back(exchange="", key="q", id=None, body=b"")
    window.confirm(3, multiple=True, outcome=CONFIRMED)

    assert batch.outcomes() == [RETURNED, RETURNED, CONFIRMED]


def test_a_lost_channel_leaves_everything_under_way_unknown_at_once() -> None:
    window, batch = Window(10), batch_of(2)
    publish_all(window, batch)
    window.confirm(1, multiple=False, outcome=CONFIRMED)

    window.lose(UNKNOWN)

    assert batch.done.done()
    assert batch.outcomes() == [CONFIRMED, UNKNOWN]
    assert window.has_room


def test_what_nobody_waits_for_any_more_is_not_published() -> None:
    batch = batch_of(2)

    batch.outcomes()

    assert not batch.wants(0)


@pytest.mark.parametrize("count", [1, 3])
def test_a_waiting_thread_goes_on_with_the_last_confirm(count: int) -> None:
    window, batch = Window(10), batch_of(count)
    publish_all(window, batch)
    answers: list[list[Published]] = []

    def wait() -> None:
        batch.wait(60)
        answers.append(batch.outcomes())

    waiting = threading.Thread(target=wait)
    waiting.start()

    window.confirm(count, multiple=True, outcome=CONFIRMED)
    waiting.join(10)

    assert answers == [[CONFIRMED] * count]

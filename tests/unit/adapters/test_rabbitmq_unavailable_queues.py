"""Queues that cannot be consumed are tried again by themselves."""

import pytest

from cronhare.adapters.rabbitmq.connection.backoff import LONGEST
from cronhare.adapters.rabbitmq.consumer.unavailable_queues import UnavailableQueues


class Seconds:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_queue_is_left_out_until_its_time_has_come() -> None:
    seconds = Seconds()
    unavailable = UnavailableQueues(seconds)
    unavailable.note("reports", "RESOURCE_LOCKED")

    assert unavailable.names == ["reports"]
    assert not unavailable.due()
    assert unavailable.next_at is not None
    seconds.now = unavailable.next_at
    assert unavailable.due() == ["reports"]
    assert unavailable.names == ["reports"]  # until it is tried


def test_what_is_consumed_and_lost_again_is_tried_ever_more_rarely_until_it_is_proved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seconds = Seconds()
    unavailable = UnavailableQueues(seconds)
    waits = []
    for _ in range(20):
        unavailable.note("reports", "it was deleted")
        assert unavailable.next_at is not None
        waits.append(unavailable.next_at - seconds.now)
        seconds.now = unavailable.next_at
        unavailable.tried("reports")
        assert unavailable.next_at is None

    assert waits[-1] > LONGEST / 2 > waits[0]
    assert [record.getMessage().count("deleted") for record in caplog.records][:1] == [1]
    unavailable.recovered(["reports"])
    unavailable.note("reports", "it was deleted")
    assert unavailable.next_at is not None
    assert unavailable.next_at - seconds.now < 1

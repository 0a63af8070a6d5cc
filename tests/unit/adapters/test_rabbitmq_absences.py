"""Queues that cannot be consumed are tried again by themselves."""

import pytest

from cronhare.adapters.rabbitmq.connection.backoff import LONGEST
from cronhare.adapters.rabbitmq.consumer.absences import Absences


class Seconds:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_queue_is_left_out_until_its_time_has_come() -> None:
    seconds = Seconds()
    absences = Absences(seconds)
    absences.note("reports", "RESOURCE_LOCKED")

    assert absences.names == ["reports"]
    assert not absences.due()
    assert absences.next_at is not None
    seconds.now = absences.next_at
    assert absences.due() == ["reports"]
    assert absences.names == ["reports"]  # until it is tried


def test_what_is_consumed_and_lost_again_is_tried_ever_more_rarely_until_it_is_proved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seconds = Seconds()
    absences = Absences(seconds)
    waits = []
    for _ in range(20):
        absences.note("reports", "it was deleted")
        assert absences.next_at is not None
        waits.append(absences.next_at - seconds.now)
        seconds.now = absences.next_at
        absences.tried("reports")
        assert absences.next_at is None

    assert waits[-1] > LONGEST / 2 > waits[0]
    assert [record.getMessage().count("deleted") for record in caplog.records][:1] == [1]
    absences.are_over(["reports"])
    absences.note("reports", "it was deleted")
    assert absences.next_at is not None
    assert absences.next_at - seconds.now < 1

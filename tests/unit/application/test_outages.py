"""What a log says of a server that is away."""

import logging

import pytest

from cronhare.application.outages import REMIND_EVERY, Outage


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outage(clock: Clock) -> Outage:
    return Outage(logging.getLogger("test"), "It works again", monotonic=clock)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.fixture(autouse=True)
def hear(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def ask(outage: Outage, error: str = "refused") -> None:
    outage.lasts(logging.ERROR, "away", "Asking again", error)


def test_one_trouble_is_told_once_a_minute(
    outage: Outage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(int(REMIND_EVERY * 2) + 1):
        clock.now = float(second)
        ask(outage)

    assert told(caplog) == [
        "Asking again: refused",
        "Asking again: refused (for 60 s now)",
        "Asking again: refused (for 120 s now)",
    ]


def test_its_end_is_told_once_and_only_if_it_began(
    outage: Outage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outage.is_over()
    ask(outage)
    clock.now = 42.4
    outage.is_over()
    outage.is_over()
    ask(outage)

    assert told(caplog) == [
        "Asking again: refused",
        "It works again, after 42 s",
        "Asking again: refused",
    ]

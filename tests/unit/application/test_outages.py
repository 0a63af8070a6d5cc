"""What a log says of a server that is away."""

import logging

import pytest

from cronhare.application.outages import REMIND_EVERY, Outage


class Told:
    """An outage, on a clock, and what the log says of it."""

    now = 0.0

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        self._log = caplog
        log = logging.getLogger("test")
        self.outage = Outage(log, "It works again", monotonic=lambda: self.now)

    def ask(self) -> None:
        self.outage.lasts(logging.ERROR, "away", "Asking again", "refused")

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in self._log.records]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


def test_one_trouble_is_told_once_a_minute(told: Told) -> None:
    for second in range(int(REMIND_EVERY * 2) + 1):
        told.now = float(second)
        told.ask()

    again = ["", " (for 60 s now)", " (for 120 s now)"]
    assert told.lines == [f"Asking again: refused{since}" for since in again]


def test_its_end_is_told_once_and_only_if_it_began(told: Told) -> None:
    told.outage.is_over()
    told.ask()
    told.now = 42.4
    told.outage.is_over()
    told.outage.is_over()
    told.ask()

    trouble, over = "Asking again: refused", "It works again, after 42 s"
    assert told.lines == [trouble, over, trouble]

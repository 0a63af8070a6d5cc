import logging
from collections.abc import Callable

import pytest

from cronhare.application.worker import ledger, unhandled
from cronhare.entrypoints.logs import TextFormatter
from tests.memory_ledger import memory_ledgers

__all__ = ["memory_ledgers"]

Lines = Callable[[], list[str]]

TIME_AND_SPACE = len("2025-12-12T12:00:00.000Z ")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is to be spared: what is away is asked again at once."""
    monkeypatch.setattr(ledger, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(ledger, "SHORT_PAUSES", (0.0,) * len(ledger.SHORT_PAUSES))
    monkeypatch.setattr(unhandled, "PAUSE", 0.0)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """Give all log lines so far as people see them, without their times."""
    caplog.set_level(logging.DEBUG, logger="cronhare")
    formatter = TextFormatter()

    def read() -> list[str]:
        return [formatter.format(record)[TIME_AND_SPACE:] for record in caplog.records]

    return read

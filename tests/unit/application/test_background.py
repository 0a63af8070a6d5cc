"""The system's own executions, beside the dispatching."""

import logging
from datetime import datetime, timedelta

import pytest

from cronhare.application.scheduling.chores import BackgroundExecutor
from cronhare.domain.execution import Execution
from cronhare.ports import LedgerUnavailable
from tests.unit.application.house import NOON, House, Inline


@pytest.fixture
def execution() -> Execution:
    house = House()
    house.add()
    house.dispatcher.tick(NOON)
    house.clock.advance(timedelta(minutes=1))
    house.dispatcher.tick(house.now)
    return house.only


@pytest.mark.parametrize("error", [LedgerUnavailable("away"), RuntimeError("a bug")])
def test_what_goes_wrong_is_said(
    execution: Execution, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def run(_execution: Execution, _now: datetime) -> None:
        raise error

    BackgroundExecutor(run, executor=Inline()).begin(execution, NOON)

    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "will be tried again" in record.getMessage()

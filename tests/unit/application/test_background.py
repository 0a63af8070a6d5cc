"""The system's own executions, beside the dispatching."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from cronhare.application.scheduling.chores import BackgroundExecutor
from cronhare.domain.execution import Execution
from cronhare.ports import LedgerUnavailable
from tests.unit.application.house import NOON, House, Inline

PATIENCE = 5.0


@pytest.fixture
def execution() -> Execution:
    house = House()
    house.add()
    house.dispatcher.tick(NOON)
    house.clock.advance(timedelta(minutes=1))
    house.dispatcher.tick(house.now)
    return house.only


def test_nobody_waits_for_it(execution: Execution) -> None:
    may_go_on, is_done = threading.Event(), threading.Event()

    def run(_execution: Execution, _now: datetime) -> None:
        assert may_go_on.wait(PATIENCE)
        is_done.set()

    with ThreadPoolExecutor(1) as executor:
        BackgroundExecutor(run, executor=executor).begin(execution, NOON)
        waited = is_done.is_set()
        may_go_on.set()

    assert not waited
    assert is_done.is_set()


@pytest.mark.parametrize("error", [LedgerUnavailable("away"), RuntimeError("a bug")])
def test_what_goes_wrong_is_said(
    execution: Execution, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def run(_execution: Execution, _now: datetime) -> None:
        raise error

    BackgroundExecutor(run, executor=Inline()).begin(execution, NOON)

    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "will be tried again" in record.getMessage()

import time
from datetime import UTC, datetime

import pytest
from freezegun import freeze_time

from cronhare.adapters.system.clock import SystemClock
from cronhare.ports.system import ClockPort
from tests.frozen_clock import FrozenClock

START = datetime(2026, 3, 29, 0, 59, 59, 250_000, tzinfo=UTC)


@pytest.fixture(params=[SystemClock(), FrozenClock(START)], ids=["system", "frozen"])
def any_clock(request: pytest.FixtureRequest) -> ClockPort:
    clock: ClockPort = request.param
    return clock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(START)


def test_now_is_aware_and_in_utc(any_clock: ClockPort) -> None:
    assert any_clock.now().tzinfo is UTC


def test_the_stopwatch_does_not_go_back(any_clock: ClockPort) -> None:
    first, second = any_clock.monotonic(), any_clock.monotonic()

    assert first <= second


@freeze_time("2026-03-29 00:59:59.25")
def test_the_system_clock_tells_the_machines_time_to_the_microsecond() -> None:
    assert SystemClock().now() == START


def test_the_system_clocks_stopwatch_counts_what_the_machine_slept() -> None:
    def machine() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    before, reading, after = machine(), SystemClock().monotonic(), machine()

    assert before <= reading <= after

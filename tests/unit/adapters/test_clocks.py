import time
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time

from cronhare.adapters.system.clock import SystemClock
from cronhare.ports.system import ClockPort
from tests.frozen_clock import FrozenClock

START = datetime(2026, 3, 29, 0, 59, 59, 250_000, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


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


def test_the_system_clock_never_jumps() -> None:
    calls: list[str] = []
    clock = SystemClock()

    clock.on_jump(lambda: calls.append("jumped"))
    with freeze_time("2026-03-29 00:00:00") as wall:
        wall.move_to("2027-03-29 00:00:00")
        clock.now()

    assert calls == []


def test_moving_to_a_later_instant_lets_the_time_between_pass(clock: FrozenClock) -> None:
    clock.move_to(START + MINUTE)

    assert clock.now() == START + MINUTE
    assert clock.monotonic() == 60.0


def test_setting_the_wall_clock_back_leaves_the_stopwatch_alone(clock: FrozenClock) -> None:
    clock.advance(MINUTE)

    clock.move_to(START - MINUTE)

    assert clock.now() == START - MINUTE
    assert clock.monotonic() == 60.0


def test_whoever_asked_hears_of_each_move_after_it_was_made(clock: FrozenClock) -> None:
    seen: list[datetime] = []
    clock.on_jump(lambda: seen.append(clock.now()))

    clock.advance(MINUTE)
    clock.move_to(START)

    assert seen == [START + MINUTE, START]

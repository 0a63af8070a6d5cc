import time
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from freezegun import freeze_time

from cronhare.adapters.memory.clock import FrozenClock
from cronhare.adapters.system.clock import SystemClock
from cronhare.ports.clock import ClockPort

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


def test_a_frozen_clock_stands_still(clock: FrozenClock) -> None:
    assert (clock.now(), clock.monotonic()) == (clock.now(), clock.monotonic()) == (START, 0.0)


def test_time_that_passes_moves_the_wall_clock_and_the_stopwatch(clock: FrozenClock) -> None:
    clock.advance(timedelta(milliseconds=1500))

    assert clock.now() == START + timedelta(milliseconds=1500)
    assert clock.monotonic() == 1.5


def test_ten_tenths_of_a_second_are_one_second(clock: FrozenClock) -> None:
    for _ in range(10):
        clock.advance(timedelta(milliseconds=100))

    assert clock.monotonic() == 1.0


def test_time_does_not_go_back(clock: FrozenClock) -> None:
    with pytest.raises(ValueError, match="time does not go back"):
        clock.advance(-MINUTE)

    assert clock.now() == START


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


@pytest.mark.parametrize(
    "start",
    [
        START.replace(tzinfo=None),
        START.astimezone(timezone(timedelta(hours=1))),
        datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/London")),
    ],
    ids=["naive", "fixed offset", "summer time"],
)
def test_a_frozen_clock_takes_instants_in_utc_alone(start: datetime, clock: FrozenClock) -> None:
    with pytest.raises(ValueError, match="not an aware instant in UTC"):
        FrozenClock(start)
    with pytest.raises(ValueError, match="not an aware instant in UTC"):
        clock.move_to(start)

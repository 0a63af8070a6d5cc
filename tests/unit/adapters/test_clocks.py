import time
from datetime import UTC, datetime

from freezegun import freeze_time

from cronhare.adapters.system.clock import SystemClock

START = datetime(2026, 3, 29, 0, 59, 59, 250_000, tzinfo=UTC)


@freeze_time("2026-03-29 00:59:59.25")
def test_the_system_clock_tells_the_machines_time_to_the_microsecond() -> None:
    assert SystemClock().now() == START


def test_the_system_clocks_stopwatch_counts_what_the_machine_slept() -> None:
    def machine() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    before, reading, after = machine(), SystemClock().monotonic(), machine()

    assert before <= reading <= after

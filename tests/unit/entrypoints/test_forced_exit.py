"""When a shutdown is over, whether it has ended or not."""

from cronhare.domain.nodes import ENDING
from cronhare.entrypoints.signals import LEAVING, ForcedExit


class Seconds:
    def __init__(self, *times: float) -> None:
        self._times = list(times)

    def __call__(self) -> float:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


def limits(signals: int, *, grace: float) -> list[float]:
    forced_exit = ForcedExit(grace=grace, clock=lambda: 1000.0)
    for _ in range(signals):
        forced_exit.signalled()
    return [forced_exit._ends.get() - 1000.0 for _ in range(signals)]


def test_the_time_counts_from_the_signal_and_not_from_the_start() -> None:
    assert limits(1, grace=30.0) == [30.0 + ENDING]


def test_a_second_signal_takes_the_grace_away_and_a_third_the_rest() -> None:
    assert limits(4, grace=30.0) == [30.0 + ENDING, ENDING, 0.0, 0.0]


def test_nobody_waits_beyond_the_soonest_end() -> None:
    forced_exit = ForcedExit(grace=30.0, clock=Seconds(0.0, 0.0, 5.0))
    forced_exit.signalled()
    forced_exit.signalled()
    forced_exit.signalled()

    forced_exit.wait()  # the third signal's end is now, though the first one's is not


def test_threads_that_are_left_have_a_time_of_their_own() -> None:
    forced_exit = ForcedExit(grace=3600.0, clock=Seconds(0.0, 0.0, LEAVING + 1))
    forced_exit.signalled()
    forced_exit.leaving()

    forced_exit.wait()

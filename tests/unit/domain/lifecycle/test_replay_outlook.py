from datetime import timedelta

from cronhare.domain.lifecycle.archive import UNRESOLVED
from cronhare.domain.lifecycle.replay import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import ReplayProgress, time_left

MINUTE = timedelta(minutes=1)
ORDER = ReplayOrder(which=UNRESOLVED, rate=10)


def test_what_is_left_takes_as_long_as_what_has_ended() -> None:
    halfway = ReplayProgress(waiting=98, released=2, succeeded=90, failed=10, is_collected=True)

    assert time_left(ORDER, halfway, elapsed=MINUTE) == MINUTE


def test_nothing_is_faster_than_the_rate() -> None:
    quick = ReplayProgress(waiting=600, succeeded=600, is_collected=True)

    assert time_left(ORDER, quick, elapsed=MINUTE / 60) == MINUTE

from datetime import datetime, timedelta

import pytest

from cronhare.application.scheduling.replay_looks import IDLE, ReplayLooks
from cronhare.domain.lifecycle.failure_filter import UNRESOLVED
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import FULL_FOR, Replay
from tests.unit.application.house import NOON

ORDER = ReplayOrder(which=UNRESOLVED)


def replay(next_at: datetime) -> Replay:
    return Replay(id=1, order=ORDER, created_at=NOON, up_to=9, next_at=next_at)


@pytest.mark.parametrize(("took", "rest"), [(0.0, 0.2), (0.01, 0.2), (0.1, 0.4), (0.9, 1.0)])
def test_a_round_that_takes_long_is_followed_by_a_longer_rest(took: float, rest: float) -> None:
    looks, now = ReplayLooks(), NOON + timedelta(seconds=took)

    looks.note(replay(now + FULL_FOR))

    assert looks.rest(began=NOON, now=now) == pytest.approx(rest)


def test_a_look_that_came_too_early_is_repeated_at_the_moment_itself() -> None:
    looks, due = ReplayLooks(), NOON + timedelta(seconds=1)
    looks.note(replay(due))
    looks.rest(began=NOON, now=NOON)
    early = due - timedelta(milliseconds=5)

    assert looks.rest(began=early, now=early) == pytest.approx(0.005)


def test_one_that_another_scheduler_has_taken_on_is_no_reason_to_look() -> None:
    looks, due = ReplayLooks(), NOON + timedelta(seconds=1)
    looks.note(replay(due))
    looks.rest(began=NOON, now=NOON)

    assert looks.rest(began=due, now=due) == IDLE

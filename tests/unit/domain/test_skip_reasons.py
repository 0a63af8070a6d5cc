"""Each sentence that says why an instant did not run has a kind."""

import re
from pathlib import Path

import pytest

from cronhare.domain.schedules.conditions import expired
from cronhare.domain.schedules.skips import Pause, SkipKind, Why, say_idle, skip_kind
from tests.unit.executions import NOON

SOURCES = Path(__file__).parents[3] / "src/domain/schedules"


@pytest.mark.parametrize("why", Why)
def test_an_idle_schedules_instants_have_a_kind(why: Why) -> None:
    kind = skip_kind(say_idle(why, until=NOON, problem="a fault"))

    assert kind is (SkipKind.MAX_RUNS if why is Why.MAX_RUNS else SkipKind.IDLE)


def test_conditions_have_kinds() -> None:
    assert skip_kind(str(Pause(since=NOON))) is SkipKind.PAUSED
    assert skip_kind(expired(NOON - NOON)) is SkipKind.EXPIRED
    assert skip_kind("calendar holidays: New year") is SkipKind.CALENDAR
    assert skip_kind("in no window of calendar office") is SkipKind.CALENDAR
    assert skip_kind("blackout: 02:00-04:00") is SkipKind.BLACKOUT
    assert skip_kind("what a hand wrote") is SkipKind.OTHER


def test_the_planners_own_sentences_have_kinds() -> None:
    text = (SOURCES / "planning.py").read_text(encoding="utf-8")
    said = re.findall(r'reason = f?"([^"{]+)', text)

    assert len(said) >= 5
    assert {each for each in said if skip_kind(each) is SkipKind.OTHER} == set()

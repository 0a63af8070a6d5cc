from datetime import UTC, datetime

import pytest

from cronhare.domain.cron import find_zone, resolve_wall_time


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("zone", "time", "fold", "instant"),
    [
        ("UTC", "2025-12-15T15:00", 0, "2025-12-15T15:00Z"),
        ("Europe/Berlin", "2025-12-15T15:00", 0, "2025-12-15T14:00Z"),
        ("Europe/Berlin", "2025-12-15T15:00", 1, "2025-12-15T14:00Z"),
        ("Europe/Berlin", "2025-07-01T00:00:59.5", 0, "2025-06-30T22:00Z"),
        ("America/New_York", "2026-11-01T01:30", 0, "2026-11-01T05:30Z"),
        ("America/New_York", "2026-11-01T01:30", 1, "2026-11-01T06:30Z"),
        ("America/New_York", "2026-11-01T02:00", 0, "2026-11-01T07:00Z"),
        ("America/St_Johns", "2010-11-06T23:30", 0, "2010-11-07T02:00Z"),
        ("America/St_Johns", "2010-11-06T23:30", 1, "2010-11-07T03:00Z"),
        ("Antarctica/Casey", "2010-03-04T23:30", 0, "2010-03-04T12:30Z"),
        ("Antarctica/Casey", "2010-03-04T23:30", 1, "2010-03-04T15:30Z"),
        ("Pacific/Apia", "2011-12-31T00:00", 0, "2011-12-30T10:00Z"),
    ],
)
def test_a_wall_time_names_an_instant(zone: str, time: str, fold: int, instant: str) -> None:
    resolved = resolve_wall_time(wall(time), find_zone(zone), fold)

    assert resolved == datetime.fromisoformat(instant)
    assert resolved.tzinfo is UTC


@pytest.mark.parametrize(
    ("zone", "time", "shown"),
    [
        ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29 03:30"),
        ("Australia/Lord_Howe", "2025-10-05T02:00", "2025-10-05 02:30"),
        ("America/Sao_Paulo", "2018-11-04T00:59", "2018-11-04 01:59"),
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-31 12:00"),
    ],
)
def test_a_time_that_the_clock_leaps_over_is_refused_with_what_it_shows_then(
    zone: str, time: str, shown: str
) -> None:
    with pytest.raises(ValueError, match=f"leaps over it, and shows {shown}"):
        resolve_wall_time(wall(time), find_zone(zone))


@pytest.mark.parametrize("edge", ["0001-01-01T00:00", "9999-12-31T23:59"])
def test_the_edges_of_the_calendar_are_refused(edge: str) -> None:
    with pytest.raises(ValueError, match="edge of the calendar"):
        resolve_wall_time(wall(edge), find_zone("Pacific/Apia"))

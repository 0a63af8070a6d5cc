"""Windows of time, and what else decides whether an instant runs."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cronhare.domain.schedules.conditions import WindowInvalid, expired, parse_window

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("2026-12-25", ["2026-12-25T00:00", "2026-12-25T23:59"], ["2026-12-24T23:59"]),
        ("2026-12-24..2026-12-26", ["2026-12-26T23:59"], ["2026-12-27T00:00"]),
        ("12-25", ["2031-12-25T12:00"], ["2031-12-26T00:00"]),
        ("12-24..01-01", ["2026-12-31T08:00", "2027-01-01T08:00"], ["2027-01-02T00:00"]),
        ("02-29", ["2028-02-29T08:00"], ["2027-03-01T00:00"]),
        ("Sat,Sun", ["2026-03-07T00:00", "2026-03-08T23:59"], ["2026-03-09T00:00"]),
        ("fri-mon", ["2026-03-06T08:00", "2026-03-09T08:00"], ["2026-03-10T08:00"]),
        ("22:00-06:00", ["2026-03-02T22:00", "2026-03-03T05:59"], ["2026-03-03T06:00"]),
        ("Fri 22:00-06:00", ["2026-03-07T05:59"], ["2026-03-07T22:00", "2026-03-06T05:59"]),
        ("12-31 18:00-24:00", ["2026-12-31T23:59"], ["2027-01-01T00:00", "2026-12-31T17:59"]),
        (
            "2026-12-24T18:00..2026-12-27T06:00",
            ["2026-12-24T18:00", "2026-12-27T05:59"],
            ["2026-12-24T17:59", "2026-12-27T06:00"],
        ),
    ],
)
def test_a_window_covers_what_it_says_by_the_clocks_of_its_zone(
    text: str, inside: list[str], outside: list[str]
) -> None:
    window = parse_window(text)

    def covers(wall: str) -> bool:
        moment = datetime.fromisoformat(wall).replace(tzinfo=BERLIN).astimezone(UTC)
        return window.covers(moment, BERLIN)

    assert [covers(wall) for wall in inside] == [True] * len(inside)
    assert [covers(wall) for wall in outside] == [False] * len(outside)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-02-30",
        "02-30",
        "2026-12-26..2026-12-24",
        "25:00-26:00",
        "2026-12-24T18:00..2026-12-24T06:00",
        "2026-12-24T18:00..2026-12-25T06:00 22:00-23:00",
        "Mon 06:00",
        "\uff11\uff12:00-13:00",
        "x" * 10_000,
    ],
)
def test_what_is_no_window_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(WindowInvalid, match=r"write \"2026-12-25\"|longer than"):
        parse_window(text)


@pytest.mark.parametrize(
    ("wall", "covered"),
    [
        ("2026-03-29T00:30", False),
        ("2026-03-29T00:59", False),
        ("2026-03-29T01:00", False),  # 03:00 summer time: from 02:00 to 03:00 there was nothing
        ("2026-10-24T23:59", False),
        ("2026-10-25T00:30", True),  # 02:30 summer time
        ("2026-10-25T01:30", True),  # 02:30 winter time: the hour comes twice, and is dark twice
        ("2026-10-25T02:00", False),
    ],
)
def test_a_window_in_the_hour_that_a_clock_leaps_over_or_repeats(
    wall: str, *, covered: bool
) -> None:
    """*wall* is in UTC."""
    moment = datetime.fromisoformat(wall).replace(tzinfo=UTC)

    assert parse_window("02:00-03:00").covers(moment, BERLIN) is covered


def test_an_instant_at_the_edge_of_the_calendar_is_in_no_window() -> None:
    last = datetime.max.replace(tzinfo=UTC)

    assert not parse_window("Mon-Sun").covers(last, ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (timedelta(minutes=10), "expired: not started within 10m of its due instant"),
        (timedelta(days=-739_943), "expired: it was to start before its due instant, and cannot"),
    ],
)
def test_an_end_before_the_begin_is_told_as_such(after: timedelta, said: str) -> None:
    assert expired(after) == said

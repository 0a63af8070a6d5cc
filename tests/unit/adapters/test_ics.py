"""iCalendar files: what is read of them, and what is refused."""

from datetime import date
from itertools import count
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from cronhare.adapters.jobs.ics import LARGEST_ICS, LONGEST_SEARCH, IcsInvalid, SearchTime, read_ics
from cronhare.domain.schedules.calendars import NamedText
from cronhare.domain.schedules.windows import parse_window

TODAY = date(2026, 3, 2)


def read(tmp_path: Path, *events: str, search: SearchTime | None = None) -> tuple[NamedText, ...]:
    """Read a file of these events, each of which is its properties."""
    path = tmp_path / "holidays.ics"
    within = "".join(f"BEGIN:VEVENT\n{event.strip()}\nEND:VEVENT\n" for event in events)
    path.write_text(f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{within}END:VCALENDAR\n")
    zone = ZoneInfo("Europe/Berlin")
    return read_ics(path, zone, today=TODAY, search=search or SearchTime())


@pytest.mark.parametrize(
    ("event", "windows"),
    [
        ("DTSTART;VALUE=DATE:20261225\nSUMMARY:Christmas", [("2026-12-25", "Christmas")]),
        (
            "DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261227",
            [("2026-12-24..2026-12-26", None)],
        ),
        ("DTSTART;VALUE=DATE:20201225\nRRULE:FREQ=YEARLY", [("12-25", None)]),
        ("DTSTART;VALUE=DATE:20260307\nRRULE:FREQ=WEEKLY;BYDAY=SA,SU", [("Sat,Sun", None)]),
        (
            "DTSTART:20261224T170000Z\nDTEND:20261227T050000Z",
            [("2026-12-24T18:00..2026-12-27T06:00", None)],
        ),
        (
            "DTSTART;VALUE=DATE:20260525\nEXDATE:20270531\nRRULE:FREQ=YEARLY;COUNT=3;BYDAY=-1MO",
            [("2026-12-28", None), ("2027-12-27", None), ("2028-12-25", None)],
        ),
        (
            "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY;UNTIL=20260102",
            [("2026-01-01", None), ("2026-01-02", None)],
        ),
    ],
)
def test_an_event_is_a_window_with_its_summary(
    tmp_path: Path, event: str, windows: list[NamedText]
) -> None:
    found = read(tmp_path, event)

    assert list(found) == windows
    assert all(parse_window(text) for text, _ in found)


def test_what_recurs_for_ever_is_written_out_for_the_years_around_today(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "DTSTART;VALUE=DATE:19700101\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH",
    )

    assert [text for text, _ in found][:2] == ["2025-11-27", "2026-11-26"]
    assert len(found) == 12


def test_a_cancelled_event_is_left_out(tmp_path: Path) -> None:
    assert read(tmp_path, "DTSTART;VALUE=DATE:20261225\nSTATUS:CANCELLED") == ()


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("SUMMARY:x", "has no DTSTART"),
        ("DTSTART:never", "event 1"),
        ("DTSTART;TZID=Nowhere/Bad:20261224T180000\nDURATION:PT1H", "'Nowhere/Bad' is unknown"),
        ("DTSTART:20261224T180000Z", "has no length"),
        ("DTSTART;VALUE=DATE:00010101\nRRULE:FREQ=DAILY", "begins before 1900"),
        ("DTSTART:20260101T000000\nDTEND:20260101T000100\nRRULE:FREQ=SECONDLY", "none of FREQ="),
        ("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY;BYHOUR=1", "has BYHOUR"),
        ("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=MONTHLY;INTERVAL=0", "INTERVAL"),
        ("DTSTART;VALUE=DATE:19000101\nRRULE:FREQ=DAILY;COUNT=99999999", "no COUNT of 1-100,000"),
        ("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never comes"),
    ],
)
def test_a_hostile_event_is_refused_in_bounded_time(tmp_path: Path, event: str, said: str) -> None:
    with pytest.raises(IcsInvalid, match=said):
        read(tmp_path, event)


def test_many_days_are_refused_before_they_are_all_written_out(tmp_path: Path) -> None:
    with pytest.raises(IcsInvalid, match="has more than 5,000 days"):
        read(tmp_path, *["DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY"] * 2)


def test_twenty_thousand_events_are_refused_after_the_first_that_are_too_many(
    tmp_path: Path,
) -> None:
    event = "DTSTART;VALUE=DATE:20260101\n"
    with pytest.raises(IcsInvalid, match="has more than 5,000 days"):
        read(tmp_path, *[event] * 20_000)


def test_a_million_events_are_refused_unread(tmp_path: Path) -> None:
    with pytest.raises(IcsInvalid, match="is larger than 1 MiB"):
        read(tmp_path, *["DTSTART;VALUE=DATE:20260101"] * 1_000_000)


@pytest.mark.parametrize(
    "rule",
    ["FREQ=SECONDLY", "FREQ=MINUTELY;INTERVAL=1", "FREQ=HOURLY", "FREQ=YEARLY;BYSECOND=1"],
)
def test_no_rule_is_written_out_by_the_second(tmp_path: Path, rule: str) -> None:
    with pytest.raises(IcsInvalid, match=r"FREQ=|has BYSECOND"):
        read(tmp_path, f"DTSTART;VALUE=DATE:19700101\nRRULE:{rule}")


def test_rules_that_step_through_many_days_are_refused_over_all_files_of_a_reading(
    tmp_path: Path,
) -> None:
    """Each comes to a Monday in 28 years: of a MiB of them the processor had 17 minutes."""
    rare = "DTSTART;VALUE=DATE:19040229\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO"
    ticks = count()
    search = SearchTime(lambda: next(ticks) * LONGEST_SEARCH / 30)
    read(tmp_path, rare, search=search)

    with pytest.raises(IcsInvalid, match="takes more than 5 s to find the days of all its rules"):
        read(tmp_path, *[rare] * 3, search=search)
    with pytest.raises(IcsInvalid, match="takes more than 5 s"):
        read(tmp_path, rare, search=search)
    assert read(tmp_path, "DTSTART;VALUE=DATE:20261225", search=search)
    assert next(ticks) < 60


def test_the_calendar_that_ships_with_the_examples_can_be_read() -> None:
    path = Path(__file__).parents[3] / "examples/calendars/de-holidays.ics"

    found = read_ics(path, ZoneInfo("Europe/Berlin"), today=TODAY, search=SearchTime())

    assert ("12-25", "Christmas Day") in found or ("12-25", "1. Weihnachtstag") in found, found
    assert len(found) <= 200


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no events|cannot be read"),
        (b"\xff\xfe\x00", "cannot be read|has no events"),
        (b"BEGIN:VEVENT\n" * 10_000, "nested deeper than 4"),
        (b"x" * (LARGEST_ICS + 1), "is larger than 1 MiB"),
    ],
)
def test_what_is_no_calendar_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "holidays.ics"
    path.write_bytes(content)

    with pytest.raises(IcsInvalid, match=said):
        read_ics(path, ZoneInfo("UTC"), today=TODAY, search=SearchTime())

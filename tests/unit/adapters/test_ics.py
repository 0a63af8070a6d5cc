"""iCalendar files: what is read of them, and what is refused."""

from datetime import date
from itertools import permutations
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from cronhare.adapters.jobs.calendars import LARGEST_ICS, IcsInvalid, read_ics
from cronhare.domain.schedules.conditions import NamedText, parse_window

TODAY = date(2026, 3, 2)


def read(
    tmp_path: Path, *events: str, zone: str = "Europe/Berlin", zones: str = ""
) -> tuple[NamedText, ...]:
    """Read a file of these events, each of which is its properties, and of *zones* before them."""
    path = tmp_path / "holidays.ics"
    within = "".join(f"BEGIN:VEVENT\n{event.strip()}\nEND:VEVENT\n" for event in events)
    path.write_text(f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{zones}{within}END:VCALENDAR\n")
    return read_ics(path, ZoneInfo(zone), today=TODAY)


@pytest.mark.parametrize(
    ("event", "windows"),
    [
        ("DTSTART;VALUE=DATE:20261225\nSUMMARY:Christmas", [("2026-12-25", "Christmas")]),
        (
            "DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261227",
            [("2026-12-24..2026-12-26", None)],
        ),
        ("DTSTART;VALUE=DATE:20201225\nRRULE:FREQ=YEARLY", [("12-25", None)]),
        ("DTSTART;VALUE=DATE:20261225\nSTATUS:CANCELLED", []),
        (
            "DTSTART;VALUE=DATE:20300501\nRRULE:FREQ=YEARLY",
            [(f"{n}-05-01", None) for n in range(2030, 2037)],
        ),
        ("DTSTART:20190101\nDTEND:20190101\nRRULE:", [("2019-01-01", None)]),  # as calendarlabs.com
        (
            "DTSTART;TZID=Europe/Berlin;VALUE=DATE:20120714\nDTEND;VALUE=DATE:20120715",
            [("2012-07-14", None)],
        ),
        (  # a day that is left out by the time of its beginning
            (
                "DTSTART;VALUE=DATE:20261223\nRRULE:FREQ=DAILY;UNTIL=20261224T230000Z\n"
                "EXDATE:20261223T230000Z"
            ),
            [("2026-12-23", None), ("2026-12-25", None)],
        ),
        ("DTSTART;VALUE=DATE:20260307\nRRULE:FREQ=WEEKLY;BYDAY=SA,SU", [("Sat,Sun", None)]),
        (
            "DTSTART:20261224T170000Z\nDTEND:20261227T050000Z",
            [("2026-12-24T18:00..2026-12-27T06:00", None)],
        ),
        (
            "DTSTART;VALUE=DATE:20260525\nEXDATE:20270531\nRRULE:FREQ=YEARLY;COUNT=3;BYDAY=-1MO",
            [(f"{day}", None) for day in ("2026-05-25", "2026-12-28", "2027-12-27", "2028-12-25")],
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
    found = read(tmp_path, "DTSTART;VALUE=DATE:19700101\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")

    assert [text for text, _ in found][:2] == ["2025-11-27", "2026-11-26"]
    assert len(found) == 12


@pytest.mark.parametrize(
    ("event", "windows"),
    [
        (  # New York changes its clocks three weeks before Berlin
            (
                "DTSTART;TZID=America/New_York:20260306T090000\n"
                "DTEND;TZID=America/New_York:20260306T100000\nRRULE:FREQ=DAILY;COUNT=3"
            ),
            [
                "2026-03-06T15:00..2026-03-06T16:00",
                "2026-03-07T15:00..2026-03-07T16:00",
                "2026-03-08T14:00..2026-03-08T15:00",
            ],
        ),
        (  # the clocks are set back meanwhile
            "DTSTART:20261025T005000Z\nDTEND:20261025T011000Z",
            ["2026-10-25T02:50..2026-10-25T03:10"],
        ),
    ],
)
def test_an_event_recurs_by_its_own_clocks_and_is_told_by_the_calendars(
    tmp_path: Path, event: str, windows: list[str]
) -> None:
    found = read(tmp_path, event)

    assert [text for text, _ in found] == windows
    assert all(parse_window(text) for text in windows)


THREE_DAYS = "UID:1\nDTSTART;VALUE=DATE:20261127\nRRULE:FREQ=DAILY;COUNT=3"


@pytest.mark.parametrize(
    ("series", "change", "days"),
    [
        (  # moved to 5 December
            THREE_DAYS,
            "RECURRENCE-ID;VALUE=DATE:20261128\nDTSTART;VALUE=DATE:20261205",
            ["2026-11-27", "2026-11-29", "2026-12-05"],
        ),
        (
            THREE_DAYS,
            "RECURRENCE-ID;VALUE=DATE:20261128\nDTSTART:20261128\nSTATUS:CANCELLED",
            ["2026-11-27", "2026-11-29"],
        ),
        (  # an older form of the same event, and one of the same age
            f"{THREE_DAYS}\nSEQUENCE:2",
            "DTSTART;VALUE=DATE:20261224\nSEQUENCE:1",
            ["2026-11-27", "2026-11-28", "2026-11-29"],
        ),
        (
            THREE_DAYS,
            "DTSTART;VALUE=DATE:20261224",
            ["2026-11-27", "2026-11-28", "2026-11-29", "2026-12-24"],
        ),
    ],
)
def test_another_event_of_the_same_uid_changes_an_occurrence_or_replaces_all(
    tmp_path: Path, series: str, change: str, days: list[str]
) -> None:
    either = [read(tmp_path, *order) for order in permutations([series, f"UID:1\n{change}"])]

    assert [sorted(text for text, _ in found) for found in either] == [days, days]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("SUMMARY:x", "has no DTSTART"),
        ("DTSTART;TZID=Nowhere/Bad:20261224T180000\nDURATION:PT1H", "'Nowhere/Bad' is unknown"),
        ("DTSTART:20261224T180000Z\nDTEND:20261224T170000Z", "ends before it begins"),
        ("DTSTART:20261224\nEXDATE:rubbish\nRRULE:FREQ=DAILY;COUNT=3", "its EXDATE cannot be read"),
        ("DTSTART:20261224T180000Z\nDTEND:20261224T190000", "is not as RFC 5545 has it"),
    ],
)
def test_an_event_that_cannot_be_read_says_why(tmp_path: Path, event: str, said: str) -> None:
    with pytest.raises(IcsInvalid, match=said):
        read(tmp_path, event)


def test_many_days_are_refused_before_they_are_all_written_out(tmp_path: Path) -> None:
    with pytest.raises(IcsInvalid, match="has more than 5,000 days"):
        read(
            tmp_path,
            "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY",
            "DTSTART:20260101T120000\nDURATION:PT1H\nRRULE:FREQ=DAILY",
        )


@pytest.mark.parametrize("rule", ["FREQ=SECONDLY", "FREQ=MONTHLY;INTERVAL=0"])
def test_a_rule_that_would_be_followed_for_ever_is_refused(tmp_path: Path, rule: str) -> None:
    with pytest.raises(IcsInvalid, match="recurs within a day, or has no interval"):
        read(tmp_path, f"DTSTART:19700101T000000\nDURATION:PT1S\nRRULE:{rule}")


@pytest.mark.parametrize(("march", "october"), [("", ""), ("BYHOUR=2;", "BYHOUR=3;")])  # as Notes
def test_the_clocks_of_an_event_may_be_those_of_a_zone_in_the_file(
    tmp_path: Path, march: str, october: str
) -> None:
    changes = "".join(
        f"BEGIN:{kind}\nDTSTART:16010101T020000\nRRULE:FREQ=YEARLY;{hour}BYDAY=-1SU;BYMONTH={month}"
        f"\nTZOFFSETFROM:{before}\nTZOFFSETTO:{after}\nEND:{kind}\n"
        for kind, hour, month, before, after in (
            ("DAYLIGHT", march, 3, "+0100", "+0200"),
            ("STANDARD", october, 10, "+0200", "+0100"),
        )
    )
    zone = f"BEGIN:VTIMEZONE\nTZID:Mine\n{changes}END:VTIMEZONE\n"
    event = "DTSTART;TZID=Mine:20260701T100000\nDURATION:PT1H"

    assert read(tmp_path, event, zone="UTC", zones=zone) == (
        ("2026-07-01T08:00..2026-07-01T09:00", None),
    )


def test_the_calendar_that_ships_with_the_examples_can_be_read() -> None:
    path = Path(__file__).parents[3] / "examples/calendars/de-holidays.ics"

    found = read_ics(path, ZoneInfo("Europe/Berlin"), today=TODAY)

    assert ("12-25", "Christmas Day") in found or ("12-25", "1. Weihnachtstag") in found, found
    assert len(found) <= 200


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no events|cannot be read"),
        (b"BEGIN:VTODO\n" * 10_000, "cannot be read|has no events"),
        (b"x" * (LARGEST_ICS + 1), "is larger than 1 MiB"),
    ],
)
def test_what_is_no_calendar_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "holidays.ics"
    path.write_bytes(content)

    with pytest.raises(IcsInvalid, match=said):
        read_ics(path, ZoneInfo("UTC"), today=TODAY)

"""Times as people write them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from cronhare.entrypoints.cli import times
from cronhare.entrypoints.cli.errors import Refusal
from cronhare.entrypoints.cli.times import none_since, read_future, read_past, read_span

NOW = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2hh", "soon", "", "1" * 70, "1" * 30, "2027-01-01x00:00"])
def test_what_is_neither_a_time_nor_how_long_is_told_both_forms(text: str) -> None:
    both = r"is no time; write 2026-03-28T08:00:00Z, .* or how long: 90s"

    with pytest.raises(Refusal, match=both):
        read_past(text, UTC, now=NOW)
    with pytest.raises(Refusal, match=both):
        read_future(text, ZoneInfo("UTC"), now=NOW)


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("22:00", "UTC", "2026-03-28T22:00Z"),
        ("23:45", "UTC", "2026-03-27T23:45Z"),  # today's is still to come
        ("9:00", "UTC", "2026-03-28T09:00Z"),
        ("9:00+02:00", "UTC", "2026-03-28T07:00Z"),
        ("yesterday", "UTC", "2026-03-27T00:00Z"),
        ("1:00", "Europe/Berlin", "2026-03-28T00:00Z"),  # it is 0:30 of the 29th there
        ("yesterday", "Europe/Berlin", "2026-03-27T23:00Z"),
    ],
)
def test_a_time_of_the_day_is_the_last_one_gone_by(text: str, zone: str, moment: str) -> None:
    assert read_past(text, ZoneInfo(zone), now=NOW) == datetime.fromisoformat(moment)


def test_the_end_of_a_pause_is_the_next_time_of_the_day() -> None:
    zone = ZoneInfo("UTC")

    assert read_future("23:45", zone, now=NOW) == datetime(2026, 3, 28, 23, 45, tzinfo=UTC)
    assert read_future("8:00", zone, now=NOW) == datetime(2026, 3, 29, 8, tzinfo=UTC)


def test_all_faults_of_a_span_are_told_and_a_beginning_to_come_is_one() -> None:
    with pytest.raises(Refusal) as both:
        read_span("soon", "2hh", UTC, now=NOW)
    with pytest.raises(Refusal) as ahead:
        read_span("2026-03-29T22:00", None, UTC, now=NOW)

    assert [fault.partition(":")[0] for fault in both.value.details] == ["--since", "--until"]
    assert ahead.value.details == ("--since: 2026-03-29 22:00Z is still to come",)


def test_a_span_is_read_and_an_empty_answer_told_in_the_zone_that_people_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(times, "display_zone", lambda: ZoneInfo("America/New_York"))

    since, until = read_span("18:00", None, now=NOW)

    assert since == datetime(2026, 3, 28, 22, tzinfo=UTC)
    assert none_since("Nothing.", since, until) == "None since 2026-03-28 18:00-04."
    assert none_since("Nothing.", None) == "Nothing."

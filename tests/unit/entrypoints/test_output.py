"""What a terminal is shown: lists, sentences, times, bars and waiting."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import attrs
import pytest

from cronhare.entrypoints.cli import output, times
from cronhare.entrypoints.cli.errors import Refusal
from cronhare.entrypoints.cli.output import Styled, print_line, print_rows, table
from cronhare.entrypoints.cli.times import (
    display_zone,
    moment,
    none_since,
    read_future,
    read_past,
    read_span,
)

LAST = datetime.max.replace(tzinfo=UTC)
FAILED_AT = datetime(2026, 11, 22, 12, 26, 2, tzinfo=UTC)
HEADINGS = ("ID", "SCHEDULE", "TASK", "STATE", "REASON")
ROW = (1, "charge-card-of-all-customers", "charge", "failed", "the gateway refused it: " * 5)

Window = Callable[[int], None]


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Window:
    """Print to a terminal of so many columns."""

    def become(width: int) -> None:
        monkeypatch.setattr(output, "is_terminal", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))

    return become


@pytest.mark.parametrize("width", [50, 60, 80, 120])
@pytest.mark.parametrize("is_list", [True, False])
def test_a_list_is_shortened_to_the_window_and_a_table_folded(
    width: int, is_list: bool, window: Window, capsys: pytest.CaptureFixture[str]
) -> None:
    window(width)
    how = {"spare": ("TASK",), "elastic": ("REASON",)} if is_list else {}
    table(*HEADINGS, rows=[ROW, (2, "a", "b", "c", "short")], empty="", **how)

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:3])) <= width
    assert ("…" in lines[1]) == is_list
    assert is_list or width == 50 or " ".join(lines).count("refused") == 5


def test_a_pipe_has_whole_lines_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    table("WHO", "WHAT", rows=[("日本", "x" * 300), ("a", 1)], empty="")

    assert capsys.readouterr().out.splitlines() == ["WHO   WHAT", f"日本  {'x' * 300}", "a     1"]


@attrs.frozen
class Run:
    """What a list shows."""

    name: str
    due: datetime | None
    state: str


COLUMNS: Mapping[str, object] = {
    "NAME": "name",
    "DUE": "due",
    "STATE": lambda run: Styled(run.state),
}


def listed(run: Run, capsys: pytest.CaptureFixture[str]) -> str:
    print_rows([run], COLUMNS, json=False, empty="None.")  # type: ignore[arg-type]
    return capsys.readouterr().out.splitlines()[1]


def test_times_are_in_full_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(times, "display_zone", lambda: UTC)
    run = Run("a", datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC), "failed")

    assert listed(run, capsys).split() == ["a", "2026-03-02", "12:00:30Z", "failed"]


def test_times_are_beside_now_on_a_terminal(
    capsys: pytest.CaptureFixture[str], window: Window
) -> None:
    window(80)
    now = datetime.now(UTC)  # here: the line is written beside the moment in which it is

    assert "2 h ago" in listed(Run("a", now - timedelta(hours=2, minutes=5), "failed"), capsys)
    assert "in 3 min" in listed(Run("a", now + timedelta(minutes=3, seconds=30), "on"), capsys)


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_what_could_begin_another_line_is_escaped(
    on_a_terminal: bool, window: Window, capsys: pytest.CaptureFixture[str]
) -> None:
    if on_a_terminal:
        window(80)

    assert listed(Run("a\nb\x1b[31m", None, "on"), capsys) == "a\\nb\\x1b[31m  -    on"


@pytest.mark.parametrize(
    ("variable", "zone", "value", "shown"),
    [
        ("CRON_DISPLAY_TIMEZONE", "Asia/Kolkata", FAILED_AT, "2026-11-22 17:56:02+05:30"),
        ("TZ", ":Europe/Berlin", FAILED_AT, "2026-11-22 13:26:02+01"),
        ("TZ", "XYZ-3", FAILED_AT, "2026-11-22 15:26:02+03"),
        ("TZ", "Asia/Tokyo", LAST, "9999-12-31 23:59:59Z"),  # no year 10000
    ],
)
def test_times_are_shown_in_the_zone_of_the_setting_or_of_the_machine(
    variable: str, zone: str, value: datetime, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as environment:
        environment.setenv("TZ", "Asia/Tokyo")
        environment.setenv(variable, zone)
        time.tzset()
        display_zone.cache_clear()
        said = moment(value)
    time.tzset()
    display_zone.cache_clear()

    assert said == shown


def test_a_command_within_a_sentence_is_whole_in_a_narrow_window_as_it_is_copied(
    capsys: pytest.CaptureFixture[str], window: Window
) -> None:
    command = "`cronhare failed replay --task bad --reason 'Circuit breaker activated'`"
    window(40)

    print_line(f"Once its cause is gone, {command} runs what the breaker let fail.", indent=2)
    print_line("A sentence without any command is folded at its blanks.", indent=2)

    advice, *folded = capsys.readouterr().out.splitlines()
    assert advice.startswith("  Once its cause is gone, ")
    assert command in advice
    assert folded == ["  A sentence without any command is", "  folded at its blanks."]


NOW = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2hh", "", "1" * 70, "2027-01-01x00:00"])
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
        ("9:00+02:00", "UTC", "2026-03-28T07:00Z"),
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

"""Tables and sentences in windows of any width."""

import time
from datetime import UTC, datetime

import pytest

from cronhare.domain.texts.moments import say_moment
from cronhare.entrypoints.cli import output
from cronhare.entrypoints.cli.output import moment, print_line, table

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
FAILED_AT = datetime(2026, 11, 22, 12, 26, 2, tzinfo=UTC)
COLUMNS = ("ID", "SCHEDULE", "TASK", "KIND", "FAILED AT", "ATTEMPTS", "EXECUTION", "REASON")
ROW = (1, "charge-card", "charge-card", "failed", FAILED_AT, 2, 3, "the gateway refused it: " * 5)


def printed(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    monkeypatch.setattr(output, "PIPE_WIDTH", width)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    table(*COLUMNS, rows=[ROW], empty="Nothing.")
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_one_folds_a_time_and_cuts_nothing_off(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(width, monkeypatch, capsys)

    [first, second] = [line for line in lines if "2026-11-22" in line or "12:26:02Z" in line]
    assert first.index("2026-11-22") == second.index("12:26:02Z")
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("zone", "value", "local"),
    [
        ("America/New_York", FAILED_AT, " (07:26:02 EST)"),
        ("America/New_York", FIRST, ""),
        ("Asia/Tokyo", LAST, ""),
        ("UTC", FIRST, ""),
    ],
)
def test_a_moment_without_a_local_time_is_shown_in_utc_alone(
    zone: str, value: datetime, local: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    said = moment(value)
    monkeypatch.undo()
    time.tzset()

    assert said == f"{say_moment(value)}{local}"


def test_a_command_within_a_sentence_is_whole_in_a_narrow_window_as_it_is_copied(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "`cronhare failed replay --task bad --reason 'Circuit breaker activated'`"
    monkeypatch.setattr(output, "PIPE_WIDTH", 40)

    print_line(f"Once its cause is gone, {command} runs what the breaker let fail.", indent=2)
    print_line("A sentence without any command is folded at its blanks.", indent=2)

    advice, *folded = capsys.readouterr().out.splitlines()
    assert advice.startswith("  Once its cause is gone, ")
    assert command in advice
    assert folded == ["  A sentence without any command is", "  folded at its blanks."]

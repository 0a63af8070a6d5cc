"""Lists in windows of any width."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from cronhare.entrypoints.cli import rows
from cronhare.entrypoints.cli.output import state, text
from cronhare.entrypoints.cli.rows import Grid, print_rows

HEADINGS = ("ID", "SCHEDULE", "TASK", "STATE", "REASON")
ROW = ("1", "charge-card-of-all-customers", "charge", "failed", "the gateway refused it: " * 5)


def grid() -> Grid:
    return Grid(HEADINGS, [[*map(text, ROW)], [text("2"), *map(text, "abc"), text("short")]])


def printed(fitted: Grid, capsys: pytest.CaptureFixture[str]) -> list[str]:
    fitted.print()
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_a_row_is_one_line_that_fits_in_the_window(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted = grid()
    fitted.fit(width, spare=("TASK",), elastic=("REASON",))

    heading, first, second, *note = printed(fitted, capsys)
    assert max(map(len, (heading, first, second))) <= width
    assert "…" in first
    assert len(note) == 1


@attrs.frozen
class Run:
    """What a list shows."""

    name: str
    due: datetime | None
    state: str


COLUMNS: Mapping[str, object] = {
    "NAME": "name",
    "DUE": "due",
    "STATE": lambda run: state(run.state),
}


def listed(run: Run, capsys: pytest.CaptureFixture[str]) -> str:
    print_rows([run], COLUMNS, json=False, empty="None.")  # type: ignore[arg-type]
    return capsys.readouterr().out.splitlines()[1]


def test_times_are_in_full_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run("a", datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC), "failed")

    assert listed(run, capsys).split() == ["a", "2026-03-02", "12:00:30Z", "failed"]


def test_times_are_beside_now_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_is_terminal", lambda: True)
    now = datetime.now(UTC)  # here: the line is written beside the moment in which it is

    assert "2 h ago" in listed(Run("a", now - timedelta(hours=2, minutes=5), "failed"), capsys)
    assert "in 3 min" in listed(Run("a", now + timedelta(minutes=3, seconds=30), "on"), capsys)


def test_what_could_begin_another_line_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(Run("a\nb\x1b[31m", None, "on"), capsys) == "a\\nb\\x1b[31m  -    on"


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], {}, json=False, empty="None.")

    assert capsys.readouterr().out == "None.\n"

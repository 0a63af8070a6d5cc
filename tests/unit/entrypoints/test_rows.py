"""Lists in windows of any width."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from cronhare.entrypoints.cli import rows
from cronhare.entrypoints.cli.output import state, text
from cronhare.entrypoints.cli.rows import GAP, Grid, print_rows

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


def test_an_elastic_text_gives_way_first_then_spare_columns_then_the_widest() -> None:
    fitted = grid()
    whole = fitted.width

    fitted.fit(whole - 90, spare=("TASK",), elastic=("REASON",))
    assert fitted.left_out == []
    assert fitted.widths[1] == len(ROW[1])

    fitted.fit(54, spare=("TASK",), elastic=("REASON",))
    assert fitted.left_out == ["TASK"]
    assert fitted.widths[1] == len(ROW[1])

    fitted.fit(45, spare=("TASK",), elastic=("REASON",))
    assert fitted.widths[1] is not None
    assert fitted.widths[1] < len(ROW[1])


def test_room_of_a_column_that_is_left_out_goes_to_the_elastic_ones() -> None:
    fitted = grid()

    fitted.fit(54, spare=("TASK",), elastic=("REASON",))

    assert fitted.width == 54
    shown = [width for width in fitted.widths if width is not None]
    assert fitted.width == sum(shown) + GAP * (len(shown) - 1)


def test_what_is_as_wide_as_the_window_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    fitted = grid()
    fitted.fit(fitted.width, spare=("TASK",), elastic=("REASON",))

    assert len(printed(fitted, capsys)) == 3


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

"""Bars of what takes long, and times of what is followed."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from cronhare.application.administration.views.failures import ReplayView
from cronhare.entrypoints.cli import progress
from cronhare.entrypoints.cli.commands.replays import followed
from cronhare.entrypoints.cli.progress import working


def replay(state: str, waiting: int, released: int, succeeded: int) -> ReplayView:
    unset = dict.fromkeys(ReplayView.__annotations__)
    counts = {"failing": 0, "failed": 1, "refused": 2, "left_out": 3, "is_collected": True}
    known = {"id": 4, "kind": "backfill", "created_at": datetime(2026, 3, 2, tzinfo=UTC)}
    found = {"state": state, "waiting": waiting, "released": released, "succeeded": succeeded}
    return ReplayView(**(unset | counts | known | found))  # type: ignore[arg-type]


def test_a_replay_is_followed_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    looks: Iterator[ReplayView] = iter(
        [replay("active", 5, 2, 0), replay("active", 0, 1, 6), replay("done", 0, 0, 7)]
    )
    pauses: list[float] = []

    end = followed(lambda: next(looks), pause=pauses.append)

    assert end.state == "done"
    assert len(pauses) == 2
    assert capsys.readouterr() == ("", "")  # no terminal, no bar


def test_work_is_shown_on_a_terminal_once_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with working("Applying"):
        pass
    assert capsys.readouterr().err == ""

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(progress, "UNNOTICED", 0)
    with working("Applying [1 of 2] \x9b\u202e"):
        time.sleep(0.2)
    shown = capsys.readouterr()
    assert r"Applying [1 of 2] \x9b\u202e" in shown.err
    assert shown.out == ""

"""Bars of what takes long, and times of what is followed."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from cronhare.application.administration.views.replays import ReplayView
from cronhare.domain.lifecycle.replay_pace import ReplayState
from cronhare.domain.progress import passing
from cronhare.entrypoints.cli import progress
from cronhare.entrypoints.cli.commands.logs import Looks
from cronhare.entrypoints.cli.progress import working
from cronhare.entrypoints.cli.replay_output import _GOES_ON, ended_of, followed


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


def test_what_has_ended_is_counted_with_what_never_began() -> None:
    assert ended_of(replay("active", 5, 2, 10)) == (16, 23)


def test_what_goes_on_is_what_the_domain_calls_active() -> None:
    assert ReplayState.ACTIVE.value == _GOES_ON


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


def test_a_bar_counts_what_is_done_once_that_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(progress, "UNNOTICED", 0)
    with working("Applying") as on_progress:
        for _ in passing(range(7), on_progress):
            time.sleep(0.1)
    assert re.search("[2-6]/7", capsys.readouterr().err)


def test_a_line_that_was_there_before_has_no_time() -> None:
    looks = Looks()
    before = looks.stamp()

    looks.pause(0)

    after = looks.stamp()
    assert before.isspace()
    assert re.fullmatch(r"[0-9]{2}:[0-9]{2}:[0-9]{2}Z  ", after)
    assert len(before) == len(after)

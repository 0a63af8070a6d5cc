"""Removing what somebody else removes at the same time, or still fills."""

import os
import time
from pathlib import Path

import pytest

from cronhare.adapters.process.folders import removal


def test_what_somebody_else_still_fills_is_removed_once_they_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another who removes a folder within has it open, and moves to its top what lies deeper."""
    top, within = tmp_path / "top", tmp_path / "top" / "within"
    within.mkdir(parents=True)
    other = os.open(within, os.O_RDONLY)
    rmdir, late = os.rmdir, iter(range(20))
    paused: list[float] = []

    def fill_and_remove(name: str, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None and len(paused) < 4:
            os.mkdir(f"late-{next(late)}", dir_fd=other)
        rmdir(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", fill_and_remove)
    monkeypatch.setattr(time, "sleep", paused.append)
    left = removal.remove(str(top))
    os.close(other)

    assert left is None
    assert not top.exists()
    assert sum(paused) > 0

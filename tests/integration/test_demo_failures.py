"""`make demo-failures`, as a person with 80 columns starts it, and ends it too early."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.shell import clean_environment

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

ROOT = Path(__file__).parents[2]


@contextmanager
def demonstration(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start it; what it makes is below *folder*."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.demo_failures"],
        cwd=ROOT,
        env=clean_environment() | {"TMPDIR": str(folder), "COLUMNS": "80", "TZ": "UTC"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def processes_in(folder: Path) -> list[str]:
    """Name what still works below a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended, or is somebody else's
    return found


def test_all_that_it_shows_happens_and_it_leaves_nothing_behind(tmp_path: Path) -> None:
    with demonstration(tmp_path) as process:
        said, _ = process.communicate(timeout=180)

    assert process.returncode == 0, said
    assert re.findall(r"(?m)^(\d+)\. ", said) == [str(step) for step in range(1, 12)]
    assert len(re.findall(r"(?m)^=> ", said)) == 12 - 1  # step 3 asks, and the last line sums up
    assert [line for line in said.splitlines() if len(line) > 80] == []
    assert list(tmp_path.iterdir()) == []
    assert processes_in(tmp_path) == []

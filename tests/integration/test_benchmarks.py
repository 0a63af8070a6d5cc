"""What is run by hand: that it can still be run is seen here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.shell import clean_environment

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,  # by `make faults`
    pytest.mark.timeout(900),
]

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("bench_*.py"))


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_measures_all_of_its_sections(script: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "BENCH_SMALLEST": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Skipped: " in ran.stderr:  # by tests.services, for want of a server
        pytest.skip(ran.stderr.splitlines()[-1])
    assert ran.returncode == 0, ran.stderr


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


def test_the_demonstration_of_failures_shows_all_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "scripts.demo_failures"],
        cwd=ROOT,
        env=clean_environment() | {"TMPDIR": str(tmp_path), "COLUMNS": "80", "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    said = ran.stdout

    assert (ran.returncode, ran.stderr) == (0, ""), said
    assert re.findall(r"(?m)^(\d+)\. ", said) == [str(step) for step in range(1, 12)]
    assert len(re.findall(r"(?m)^=> ", said)) == 12 - 1  # step 3 asks, and the last line sums up
    assert [line for line in said.splitlines() if len(line) > 80] == []
    assert list(tmp_path.iterdir()) == []
    assert processes_in(tmp_path) == []

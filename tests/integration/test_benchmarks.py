"""The benchmarks are run by hand: that they can still be run is seen here."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks").glob("bench_*.py"))


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_finds_what_it_measures(script: Path) -> None:
    asked = subprocess.run(
        [sys.executable, str(script), "--help"], capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    assert "usage" in asked.stdout

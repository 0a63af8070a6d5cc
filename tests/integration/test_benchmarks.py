"""The benchmarks are run by hand: that they can still be run is seen here, at their smallest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,  # by `make faults`
    pytest.mark.timeout(900),
]

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks").glob("bench_*.py"))


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

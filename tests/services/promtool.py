"""Prometheus' own tool, which checks metrics and alert rules and plays series to them."""

import subprocess
from pathlib import Path

from tests.services.finding import binary, missing


def promtool(*arguments: str | Path, stdin: str | None = None) -> tuple[int, str]:
    program = binary("promtool")
    if program is None:
        missing("promtool", "apt-get install --no-install-recommends prometheus")
    done = subprocess.run(
        [program, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr

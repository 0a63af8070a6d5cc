"""What commands take on the full ledger, with their start."""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Final

from figures import Figure
from full_ledger import FullLedger
from questions import BUSY, DAILY
from samples import size

RUNS: Final = size(5, 1)

COMMANDS: Final = (
    ["--version"],
    ["schedules"],
    ["schedules", "show", BUSY],
    ["executions", "list"],
    ["executions", "list", "--schedule", DAILY],
    ["executions", "list", "--state", "succeeded"],
    ["executions", "list", "--state", "failed"],
    ["failed", "list"],
    ["quarantine", "list"],
    ["queues"],
    ["nodes", "list"],
    ["replays", "list"],
    ["events", "list"],
    ["explain", BUSY],
    ["failed", "stats"],
    ["metrics"],
    ["doctor"],
)


def commands(ledger: FullLedger) -> list[Figure]:
    """Run each command, its output thrown away."""
    return [_figure(ledger, arguments) for arguments in size(COMMANDS, COMMANDS[:2])]


def _figure(ledger: FullLedger, arguments: list[str]) -> Figure:
    program = str(Path(sys.executable).with_name("cronhare"))
    environment = {**os.environ, "CRON_DATABASE_URL": ledger.url, "CRON_BROKER_URL": "memory://"}
    seconds, statuses = list[float](), set[int]()
    while len(seconds) < RUNS and sum(seconds) < 2 * RUNS:
        began = time.perf_counter()
        done = subprocess.run(
            [program, *arguments], env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd=ledger.folder, check=False,
        )  # fmt: skip
        seconds.append(time.perf_counter() - began)
        statuses.add(done.returncode)
    status = "" if statuses == {0} else f", exit status {statuses}"
    return Figure(
        what=f"cronhare {' '.join(arguments)}", ours=median(seconds), unit="s",
        note=f"{len(seconds)} runs{status}",
    )  # fmt: skip

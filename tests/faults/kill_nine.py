"""Kill `cronhare up` with SIGKILL again and again, with retries under way; then ask the ledger.

Run it:  .venv/bin/python -m tests.faults.kill_nine --kills 50
Every due instant must be in the ledger exactly once, every attempt have been started at most
once and count at most once, nothing be stuck, and no process be left over.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from shutil import rmtree

import attrs

from cronhare.domain.schedules.work import Executor
from tests.faults.arena import Arena
from tests.faults.jobs import EXECUTOR
from tests.faults.judging import Figures, judge

SETTLE_SECONDS = 90.0
RUNNING = "Running; Ctrl-C ends it"


def rounds(arena: Arena, *, kills: int, die: random.Random) -> list[float]:
    """Start, wait a random while, kill; give how long each start took to run something anew."""
    recoveries = []
    for number in range(kills):
        before = arena.effects.stat().st_size
        process = arena.start()
        began = time.monotonic()
        life = die.uniform(0.2, 3.5)
        if number:
            arena.ask_for_runs()
        while time.monotonic() - began < life:
            if arena.effects.stat().st_size > before:
                recoveries.append(time.monotonic() - began)
                before = sys.maxsize
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return recoveries


def settle(arena: Arena) -> datetime:
    """Let one last process bring everything to its end, and stop it politely."""
    starts = arena.said().count(RUNNING)
    process = arena.start()
    deadline = time.monotonic() + SETTLE_SECONDS
    settled_at = None
    while settled_at is None and time.monotonic() < deadline:
        time.sleep(0.5)
        if arena.said().count(RUNNING) > starts:  # before, a signal just ends it
            settled_at = arena.settled_at()
    process.send_signal(signal.SIGTERM)
    if process.wait(timeout=60) != 0:
        raise AssertionError(f"SIGTERM ended it with status {process.returncode}")
    return settled_at or arena.claims.now()


def run(kills: int, seed: int) -> Figures:
    """Do all of it in a folder that is removed afterwards, unless a promise was broken."""
    folder = Path(tempfile.mkdtemp(prefix="kill-nine-"))
    arena = Arena(folder, seed)
    arena.apply()  # a first life may end before it has
    recoveries = rounds(arena, kills=kills, die=random.Random(seed))
    settled_at = settle(arena)
    figures = judge(arena, cycles=kills, recoveries=recoveries, settled_at=settled_at)
    arena.engine.dispose()
    if figures.broken:
        print(f"kept for a look: {folder}")
    else:
        rmtree(folder)
    return figures


def main() -> int:
    """Print the figures; the exit status is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--executor", choices=Executor, type=Executor, help="of functions")
    arguments = parser.parse_args()
    if arguments.executor is not None:
        os.environ[EXECUTOR] = arguments.executor
    print(f"seed {arguments.seed}")
    figures = run(arguments.kills, arguments.seed)
    for field, value in attrs.asdict(figures).items():
        print(f"{field:12} {value:.2f} s" if field == "recovery" else f"{field:12} {value}")
    return int(figures.broken > 0)


if __name__ == "__main__":
    sys.exit(main())

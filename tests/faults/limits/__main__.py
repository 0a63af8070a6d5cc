"""Hold limits of every kind to their promises while schedulers and workers are killed.

Run it:  .venv/bin/python -m tests.faults.limits --seconds 60 --rounds 5
The exit status is 1 if a promise was broken; the folder with the logs is kept then.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path
from shutil import rmtree

from cronhare.domain.retries.limits import OnExhausted
from tests.faults.limits.judging import tell
from tests.faults.limits.scene import measure
from tests.services import mariadb, rabbitmq


def main() -> int:
    """Live through some rounds, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long the jobs are due")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    arguments = parser.parse_args()
    folder, broken = Path(tempfile.mkdtemp(prefix="limits-")), 0
    places = _made(folder / "mariadb"), _made(folder / "rabbitmq")
    with mariadb.server(places[0]) as database, rabbitmq.server(places[1]) as broker:
        for seed in range(arguments.seed, arguments.seed + arguments.rounds):
            print(f"seed {seed} …", flush=True)
            figures = measure(
                _made(folder / str(seed)),
                broker,
                database,
                seed=seed,
                seconds=arguments.seconds,
                kills_every=(0.2, 5.0),
                on_exhausted=tuple(OnExhausted)[seed % 2],
            )
            print(tell(figures), flush=True)
            broken += figures.broken
    if broken:
        print(f"kept for a look: {folder}")
        return 1
    rmtree(folder)
    return 0


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())

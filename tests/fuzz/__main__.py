"""Try boundaries: see the package. The exit status is 1 if anything was mishandled."""

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path

from tests.fuzz.corpus import Place
from tests.fuzz.trying import Choice, Opened, attempt, boundaries
from tests.services import mariadb, rabbitmq

#: Here the ledgers are, if there is such a place: thousands of entries would wait for a disk.
MEMORY = "/dev/shm"


def places(root: Path, stack: ExitStack) -> Opened:
    """Make fresh folders, beside servers that are started when they are first asked for."""

    def folder(name: str) -> Path:
        (root / name).mkdir()
        return root / name

    broker = cache(lambda: stack.enter_context(rabbitmq.server(folder("rabbitmq"))))
    database = cache(lambda: stack.enter_context(mariadb.server(folder("mariadb"))))

    @contextmanager
    def place() -> Iterator[Place]:
        with tempfile.TemporaryDirectory(dir=root, ignore_cleanup_errors=True) as fresh:
            yield Place(Path(fresh), broker, database)

    return place


def main() -> int:
    """Try what was asked for."""
    every = {boundary.name: boundary for boundary in boundaries()}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("boundaries", nargs="*", metavar=f"{{{','.join(every)}}}")
    parser.add_argument("--short", action="store_true", help="as `make test` does")
    parser.add_argument("--only", default="", help="entries with this text in their name")
    parser.add_argument("--by-chance", type=int, default=100, help="how many more per boundary")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    asked = parser.parse_args()
    if unknown := set(asked.boundaries) - set(every):
        parser.error(f"there is no boundary {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started, as Ctrl-C
    choice = Choice(short=asked.short, only=asked.only, by_chance=asked.by_chance, seed=asked.seed)
    chosen = [every[name] for name in asked.boundaries or every]
    print(f"seed {asked.seed}")
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as root, ExitStack() as stack:
        opened = places(Path(root), stack)
        figures = attempt(chosen, choice, opened, tell=partial(print, flush=True))
    return 1 if any(one.mishandled for one in figures) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""How fast schedules become executions, beside the seeds' algorithm.

    .venv/bin/python benchmarks/bench_dispatch.py [SECTION …]

Sections: planning, idle, due, memory, executions; all of them take about two minutes. On SQLite in
a temporary folder, with the in-memory broker. Figures of a machine that others use too are to be
compared within one run.
"""

import argparse
import tempfile
from pathlib import Path

import dispatching
import executing
import footprint
from figures import Figure, table_of
from rich.console import Console
from rig import Ledgers

SECTIONS = {
    "planning": dispatching.planning,
    "idle": dispatching.idle,
    "due": dispatching.due,
    "memory": footprint.memory,
    "executions": executing.executions,
}


def main() -> None:
    chosen = asked_for()
    news = Console(stderr=True, style="dim")  # no spinner: its thread would be measured too
    sections: list[tuple[str, list[Figure]]] = []
    with tempfile.TemporaryDirectory(prefix="cronhare-bench-") as folder:
        ledgers = Ledgers(Path(folder))
        for name in chosen:
            news.print(f"measuring: {name}")
            sections.append((name, SECTIONS[name](ledgers)))
    Console(width=140).print(table_of(sections))


def asked_for() -> list[str]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    sections: list[str] = parser.parse_args().sections
    if unknown := set(sections) - set(SECTIONS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(SECTIONS)}")
    return sections or list(SECTIONS)


if __name__ == "__main__":
    main()

"""How fast the production system is, on RabbitMQ and MariaDB, beside the seeds' algorithm.

    .venv/bin/python benchmarks/bench_production.py [SECTION …]

Private servers are started for it and thrown away. Figures of a machine that others use too are to
be compared within one run.
"""

import argparse
import tempfile
from pathlib import Path

import machine
import replicas
import work
from figures import Figure, table_of
from production import production
from rich.console import Console

SECTIONS = {
    "machine": machine.machine,
    "due": replicas.due,
    "idle": replicas.idle,
    "memory": replicas.memory,
    "work": work.work,
}


def main() -> None:
    chosen = asked_for()
    news = Console(stderr=True, style="dim")  # no spinner: its thread would be measured too
    sections: list[tuple[str, list[Figure]]] = []
    with (
        tempfile.TemporaryDirectory(prefix="cronhare-bench-") as folder,
        production(Path(folder)) as servers,
    ):
        for name in chosen:
            news.print(f"measuring: {name}")
            sections.append((name, SECTIONS[name](servers)))
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

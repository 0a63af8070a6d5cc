"""Hurt the system on purpose, again and again, and hold it to its promises.

Run it:  .venv/bin/python -m tests.faults --cycles 5 [scenario …]
The exit status is 1 if a promise was broken; the folder with the logs is kept then.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from shutil import rmtree

import attrs
from psycopg import Error as PsycopgError
from pymysql import MySQLError
from rich.console import Console
from rich.table import Table

from cronhare.domain.schedules.work import Executor
from cronhare.ports import LedgerUnavailable
from tests.faults.broker_faults import ON_CLUSTER
from tests.faults.database_faults import ON_GALERA, ON_POSTGRESQL
from tests.faults.house import Scenario, Servers, house
from tests.faults.jobs import EXECUTOR
from tests.faults.judging import Figures
from tests.faults.scenarios import SCENARIOS
from tests.services import galera, mariadb, postgresql, rabbitmq
from tests.services.finding import address
from tests.services.rabbitmq_cluster import cluster

COLUMNS = (
    "cycles", "executions", "attempts", "lost", "doubled", "stuck", "orphans", "bugs", "fenced",
    "republished",
)  # fmt: skip


def main() -> int:
    """Run the scenarios, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=5, help="how often each fault is injected")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--executor", choices=Executor, type=Executor, help="of functions")
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=", ".join(SCENARIOS))
    arguments = parser.parse_args()
    if arguments.executor is not None:
        os.environ[EXECUTOR] = arguments.executor
    names = arguments.scenarios or list(SCENARIOS)
    if unknown := set(names) - SCENARIOS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    print(f"seed {arguments.seed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started, as Ctrl-C
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        kept = run(folder, names, cycles=arguments.cycles, seed=arguments.seed)
    except KeyboardInterrupt:
        rmtree(folder)
        return 130
    if kept:
        print(f"kept for a look: {folder}")
        return 1
    rmtree(folder)
    return 0


def run(folder: Path, names: list[str], *, cycles: int, seed: int) -> bool:
    """Run scenarios, each in a house of its own; tells whether one broke a promise."""
    table = Table(*("scenario", *COLUMNS, "recovery"))
    broken = False
    with servers(folder) as standing:
        for name in names:
            if name in ON_GALERA and (why := galera.why_none()):
                print(f"{name}: NOT RUN: {why}", flush=True)
                continue
            print(f"{name} …", flush=True)
            place = folder / name
            place.mkdir()
            try:
                with ground(name, place, standing) as given:
                    figures = inject(SCENARIOS[name], place, given, cycles=cycles, seed=seed)
            except (
                AssertionError,
                TimeoutError,
                LedgerUnavailable,
                MySQLError,
                PsycopgError,
            ) as error:
                broken = True
                print(f"{name}: {error}")
                continue
            broken = broken or figures.broken > 0
            table.add_row(name, *row(figures), style="red" if figures.broken else "")
    if table.rows:
        Console(width=160).print(table)
    return broken


@contextmanager
def ground(name: str, folder: Path, standing: Servers) -> Iterator[Servers]:
    """Give a scenario the servers that it needs: those that stand, or a cluster of its own."""
    if name in ON_GALERA:
        with galera.cluster(folder / "cluster") as databases:
            yield Servers(databases, standing.rabbitmq)
        return
    if name in ON_POSTGRESQL:
        with postgresql.private() as database:
            yield Servers(database, standing.rabbitmq)
        return
    if name not in ON_CLUSTER:
        yield standing
        return
    with cluster(folder / "cluster") as nodes:
        yield Servers(standing.database, nodes)


def inject(
    scenario: Scenario, folder: Path, standing: Servers, *, cycles: int, seed: int
) -> Figures:
    """Live through a scenario a number of times, settling after each, and judge."""
    with house(folder, standing, seed) as home:
        for _ in range(cycles):
            home.fill_up()
            scenario(home)
            settled_at = home.settle()
        home.stop()
        return home.judge(cycles=cycles, settled_at=settled_at)


def row(figures: Figures) -> list[str]:
    values = attrs.asdict(figures)
    recovery = "" if isnan(figures.recovery) else f"{figures.recovery:.1f} s"
    return [*(str(values[name]) for name in COLUMNS), recovery]


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    given = [name for name in (mariadb.ADDRESS, rabbitmq.ADDRESS) if address(name)]
    if given:
        raise SystemExit(f"unset {' and '.join(given)}: private servers are started, and hurt")
    places = folder / "mariadb", folder / "rabbitmq"
    for place in places:
        place.mkdir()
    with mariadb.server(places[0]) as database, rabbitmq.server(places[1]) as broker:
        yield Servers(database, broker)


if __name__ == "__main__":
    sys.exit(main())

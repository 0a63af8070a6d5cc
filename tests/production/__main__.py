"""Show what production promises, on private servers, and print the figures.
The exit status is 1 if a promise was broken; how late something was is no promise here.

Run it:  .venv/bin/python -m tests.production replicas --schedules 10000 [--postgresql]
         .venv/bin/python -m tests.production delays
         .venv/bin/python -m tests.production minutes --minutes 5
The integration tests hold a short form of each against its promises.
"""

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

import attrs

from tests.production import delays, minutes, replicas
from tests.production.plant import plant
from tests.services import databases, mariadb, postgresql, rabbitmq


@attrs.frozen
class Shows:
    """What can be shown; each in a plant of its own, on the same servers."""

    folder: Path
    broker: rabbitmq.Server
    database: databases.Server

    def replicas(self, schedules: int) -> bool:
        """Three schedulers and four workers on one busy minute."""
        with plant(self.folder, self.broker, self.database, replicas.JOBS) as at_work:
            busy = replicas.measure(at_work, schedules=schedules)
        replicas.tell(busy)
        return busy.broken == 0

    def delays(self, seed: int) -> bool:
        """Waits before retries: mixed ones, at once."""
        jobs = delays.mixed(self.folder, random.Random(seed))
        with plant(self.folder, self.broker, self.database, jobs, **delays.SETTINGS) as at_work:
            waits = delays.measure(at_work, schedules=delays.MIXED)
        delays.tell(f"0.1 to 20 s (seed {seed})", waits)
        return waits[0].late >= 0

    def minutes(self, many: int) -> bool:
        """How soon after each minute its work begins."""
        with plant(self.folder, self.broker, self.database, minutes.JOBS) as at_work:
            measured = minutes.measure(at_work, minutes=many)
        minutes.tell(measured)
        return all(each.begun >= 0 for each in measured)


def main() -> int:
    """Show one thing; the exit status is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked = parser.add_subparsers(dest="what", required=True)
    busy = asked.add_parser("replicas")
    busy.add_argument("--schedules", type=int, default=10_000)
    busy.add_argument("--postgresql", action="store_true", help="on PostgreSQL, not on MariaDB")
    asked.add_parser("delays").add_argument("--seed", type=int, default=random.randrange(2**32))
    asked.add_parser("minutes").add_argument("--minutes", type=int, default=5)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started, as Ctrl-C
    with tempfile.TemporaryDirectory(prefix="production-") as name:
        places = [Path(name) / each for each in ("rabbitmq", "mariadb", "plant")]
        for place in places:
            place.mkdir()
        with rabbitmq.server(places[0]) as broker, mariadb.server(places[1]) as database:
            shows = Shows(places[2], broker, database)
            match arguments.what:
                case "replicas" if arguments.postgresql:
                    with postgresql.private() as other:
                        shows = attrs.evolve(shows, database=other)
                        kept = shows.replicas(arguments.schedules)
                case "replicas":
                    kept = shows.replicas(arguments.schedules)
                case "delays":
                    kept = shows.delays(arguments.seed)
                case _:
                    kept = shows.minutes(arguments.minutes)
    return 0 if kept else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

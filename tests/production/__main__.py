"""Show on private servers what replicas promise of one busy minute, and print the figures.
The exit status is 1 if a promise was broken; how late something was is no promise here.

Run it:  .venv/bin/python -m tests.production --schedules 10000 [--postgresql]
The integration tests hold a short form against its promises.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.production import replicas
from tests.production.plant import plant
from tests.services import mariadb, postgresql, rabbitmq


def main() -> int:
    """Show it; the exit status is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL, not on MariaDB")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started, as Ctrl-C
    with tempfile.TemporaryDirectory(prefix="production-") as name:
        places = [Path(name) / each for each in ("rabbitmq", "mariadb", "plant")]
        for place in places:
            place.mkdir()
        database = postgresql.private() if asked.postgresql else mariadb.server(places[1])
        with (
            rabbitmq.server(places[0]) as broker,
            database as server,
            plant(places[2], broker, server, replicas.JOBS) as at_work,
        ):
            busy = replicas.measure(at_work, schedules=asked.schedules)
    replicas.tell(busy)
    return 1 if busy.broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""How fast the production system is, on RabbitMQ and MariaDB, beside the original algorithm.

    .venv/bin/python benchmarks/bench_production.py [SECTION …]

Private servers are started for it and thrown away. Figures of a machine that others use too are to
be compared within one run.
"""

import machine
import replicas
import work
from production import production
from sections import run

SECTIONS = {
    "machine": machine.machine,
    "due": replicas.due,
    "dialects": replicas.dialects,
    "keyed": replicas.keyed,
    "idle": replicas.idle,
    "memory": replicas.memory,
    "work": work.work,
}


if __name__ == "__main__":
    run(__doc__, SECTIONS, production)

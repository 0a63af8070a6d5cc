"""How fast schedules become executions, beside the original algorithm.

    .venv/bin/python benchmarks/bench_dispatch.py [SECTION …]

Sections: planning, idle, due, keyed, monitored, memory, executions; all of them take some
minutes. On SQLite in a temporary folder, with the in-memory broker. Figures of a machine that
others use too are to be compared within one run.
"""

from contextlib import nullcontext

import dispatching
import executing
import footprint
import monitored
from rig import Ledgers
from sections import run

SECTIONS = {
    "planning": dispatching.planning,
    "idle": dispatching.idle,
    "due": dispatching.due,
    "keyed": dispatching.keyed,
    "monitored": monitored.monitored,
    "memory": footprint.memory,
    "executions": executing.executions,
}


if __name__ == "__main__":
    run(__doc__, SECTIONS, lambda folder: nullcontext(Ledgers(folder)))

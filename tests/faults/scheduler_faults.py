"""A scheduler dies at a point between a due instant and its message; another one takes over."""

import signal
from functools import partial

from tests.faults.house import House, stop_politely
from tests.faults.scheduler import COMMITTED, CONFIRMED, HALF_PUBLISHED, INSERTED, POINTS, TAKEN

BUSY = 300

#: What the ledger has heard of a busy minute when its scheduler is dead.
CLAIMED_AT = {TAKEN: 0, INSERTED: 0, COMMITTED: BUSY, HALF_PUBLISHED: BUSY, CONFIRMED: BUSY}


def killed_at(point: str, house: House) -> None:
    """Let a scheduler die at *point* with a busy minute in its hands."""
    house.load()
    stop_politely(house.schedulers)
    names = house.arena.make_due(BUSY)
    mortal = house.arena.start_module("tests.faults.scheduler", point)
    try:
        status = mortal.wait(timeout=60)
    finally:
        mortal.kill()
        mortal.wait()
    assert status == -signal.SIGKILL, f"it was to die at {point}, and ended with {status}"
    rows = sum(row.schedule_name in names for row in house.arena.executions())
    assert rows == CLAIMED_AT[point], f"it died at {point} with {rows} rows in the ledger"
    house.fill_up()
    house.recover()


SCENARIOS = {f"scheduler-killed-{point}": partial(killed_at, point) for point in POINTS}

"""Play all steps, and clean up; the exit status is 1 if one of them did not happen."""

import sys
import time

from . import partners, runs, warehouse
from .interrupts import Interrupted, Interrupts
from .system import DidNotHappen, System
from .terminal import Screen

#: Lines of the system's log that are shown beside a fault.
LOG_LINES = 20


def play(system: System) -> None:
    """Go through all of it: the limits are met first, and what comes of them is seen at the end."""
    step = system.screen.step
    system.screen.note(
        "What becomes of failures: `cronhare up` on SQLite, with the jobs and settings of "
        "examples/failures, in a folder of its own. Limits are small, so that they are met soon."
    )
    system.start()
    step(1, "Four runs fail at first. Their queue has 3 retries in 20 s: one has to wait.")
    deferred = partners.budget_runs_out(system)
    step(2, "An order goes out each second, and the warehouse is closed: a circuit breaker opens.")
    warehouse.breaker_opens(system)
    step(3, "By hand: a photo, a report of ten minutes, a stocktaking twice. See 6, 7 and 8.")
    asked = runs.ask_for_runs(system)
    step(4, "Who looks after the orders is told by a webhook, which is signed.")
    warehouse.webhook_is_told(system)
    step(5, "The 8 failed orders are replayed too early: two as a canary, then 4 a second.")
    warehouse.canary_stops_a_replay(system)
    step(6, "The report is cancelled.")
    runs.run_is_cancelled(system, asked.report)
    step(7, 'Of the stocktakings one waits for the other: overlap = "queue_one".')
    runs.overlap_waits(system, asked.first, asked.second)
    step(8, "The photo's task kills its process each time: a poison pill, which is quarantined.")
    runs.pill_is_quarantined(system, asked.photo)
    step(9, "After the breaker's pause one retry is its probe; meanwhile the warehouse opens.")
    warehouse.breaker_closes(system)
    step(10, "Now the failed orders are replayed once more.")
    warehouse.batch_is_replayed(system)
    step(11, f"And execution {deferred}, whose retry had to wait?")
    partners.deferred_retry_comes(system, deferred)
    system.screen.typed("kill -INT %1")
    system.stop()


def main() -> int:
    """Play it, and leave nothing behind."""
    screen, interrupts = Screen(), Interrupts()
    began, system = time.monotonic(), None
    try:
        with interrupts.held():
            system = System(screen, interrupts)
        play(system)
    except DidNotHappen as fault:
        screen.fault(f"{fault}.")
        for line in [] if system is None else system.log.end(LOG_LINES):
            screen.note(line)
        return 1
    except Interrupted as interrupted:
        screen.note(f"{interrupted}: cleaning up.")
        return 128 + interrupted.number
    else:
        screen.came_of_it(f"All of it happened, in {time.monotonic() - began:.0f} s.")
        return 0
    finally:
        if system is not None:
            system.close()


if __name__ == "__main__":
    sys.exit(main())

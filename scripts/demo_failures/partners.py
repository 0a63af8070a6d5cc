"""A retry budget runs out; what it defers has its turn when a place is free."""

import re

from .system import DidNotHappen, System
from .system_log import Line

QUEUE = "cron_scheduler.partners"
#: What cronhare.toml says.
BUDGET, WINDOW = 3, 20

_DELAY = re.compile(r"Scheduling retry \d+/\d+ in (\d+)ms")


def budget_runs_out(system: System) -> int:
    """Show that the fourth retry waits; gives its execution."""
    granted = [system.logged("attempt.retry", number=n, schedule=s) for s, n in _RETRIED]
    system.logged("budget.spent", queue=QUEUE)
    deferred = [line for line in granted if _delay(line) > WINDOW // 2]
    if len(deferred) != len(granted) - BUDGET:
        raise DidNotHappen(f"{len(deferred)} of {len(granted)} retries were deferred")
    [waiting] = deferred
    printed = system.type("budgets", "list")
    if QUEUE not in printed:
        raise DidNotHappen("`budgets list` does not have the queue")
    printed = " ".join(system.type("explain", str(waiting["execution"])).split())
    if "deferred: the retry budget of queue" not in printed:
        raise DidNotHappen("`explain` does not say that the retry is deferred")
    system.screen.came_of_it(
        f"{BUDGET} retries began at once. Execution {waiting['execution']} waits for a place, "
        f"{_delay(waiting):.0f} s; the last step will look at it again."
    )
    return int(waiting["execution"])


def deferred_retry_comes(system: System, execution: int) -> None:
    """Show that the retry which waited has begun when its place was free, and succeeded."""
    system.logged("attempt.succeeded", execution=execution)
    printed = system.type("executions", "show", str(execution))
    first, second = system.log.lines("attempt.start", execution=execution)
    waited = (second.at - first.at).total_seconds()
    if waited < WINDOW - 2 or "succeeded" not in printed:
        raise DidNotHappen(f"its retry came after {waited:.1f} s, and its budget has {WINDOW} s")
    system.screen.came_of_it(
        f"Its retry began {waited:.1f} s after its first attempt: put off, not lost."
    )


_RETRIED = [("prices", 1), ("prices", 2), ("stock", 1), ("stock", 2)]


def _delay(line: Line) -> float:
    """Give the seconds until a retry."""
    found = _DELAY.search(line.message)
    return int(found[1]) / 1000 if found else 0.0

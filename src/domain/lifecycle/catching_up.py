"""Runs that were due in an outage begin one after the other: `CRON_CATCH_UP_BUDGET`.

So many of them begin in any minute, over all schedules, those that were due first the first. Who
claims them gives each its place. What was claimed in time, and came to no worker, is given one by
the worker that starts it (`CatchUp` in `retry_limits.py`). What is on time does not wait.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

import msgspec

from ..execution import Execution, State
from ..retries.limits import Budget
from ..schedules.keys import Trigger, trigger_of
from ..schedules.planning import GRACE
from ..texts.words import counted
from .gates import gates_of

#: What their budget is called among those of queues: none has such a name.
LATE_RUNS: Final = "* late runs"

#: How the reason begins for which one waits.
CATCHES_UP: Final = "catches up: "


def claimed_late(claimed: Iterable[Execution]) -> Sequence[Execution]:
    """Give those that were claimed later than their grace, in the order of their due times."""
    late = (one for one in claimed if one.executed_at - one.due_at > GRACE)
    return sorted((one for one in late if one.state is not State.SKIPPED), key=attrgetter("due_at"))


def with_places(
    late: Iterable[Execution], budget: Budget, *, now: datetime
) -> tuple[Budget, Mapping[tuple[int, str], Execution]]:
    """Give each its place; answers the budget after that, and those that wait for theirs.

    The place counts instead of the schedule's jitter, which spreads less than this.
    """
    waiting = dict[tuple[int, str], Execution]()
    for run in late:
        place = budget.staggered_at(now)
        budget = budget.granted(place, now=now)
        waiting[run.scheduler_id, run.key] = msgspec.structs.replace(
            run,
            next_attempt_at=place,
            check_at=place,
            last_error=say_turn(budget) if place > now else None,
        )
    return budget, waiting


def say_turn(budget: Budget) -> str:
    runs = counted(budget.most, "late run")
    return f"{CATCHES_UP}CRON_CATCH_UP_BUDGET lets {runs} begin in a minute"


def waits_for_its_turn(run: Execution) -> bool:
    return run.last_error is not None and run.last_error.startswith(CATCHES_UP)


def is_first_attempt_of_due_instant(run: Execution) -> bool:
    """Tell whether its start may have been held up by an outage: by no gate, person or replay."""
    return (
        run.attempt == 1
        and run.state in {State.CLAIMED, State.PUBLISHED}
        and trigger_of(run.key) is Trigger.TIME
        and not gates_of(run)
    )

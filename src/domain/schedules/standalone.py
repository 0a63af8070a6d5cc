"""Schedules with `stay_alive`: each has a worker of its own (S1.3, C40 in docs/compatibility.md).

Their runs go through a queue that only `cronhare worker --standalone NAME` serves, and `cronhare
up`, which is all there is.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from hashlib import blake2b
from itertools import takewhile
from typing import Final

from ..retries.policy import exponential
from .keys import Trigger, trigger_of

#: How the queues of such schedules begin.
PREFIX: Final = "cron_standalone."

#: So long their runs may take, unless the schedule itself says otherwise.
NO_DEADLINE: Final = timedelta(days=36_500)

#: Between the end of a run and the next one: doubled while runs are brief.
FIRST_WAIT: Final = timedelta(seconds=1)
LONGEST_WAIT: Final = timedelta(minutes=5)

#: After a run that was so long the waits begin anew.
STEADY: Final = timedelta(minutes=10)

#: So many of the last runs are looked at for that.
RUNS_LOOKED_AT: Final = 12

#: A name that looks like a hash is none: it might be that of another name, and so its queue.
_HASH: Final = r"[0-9a-f]{32}"
_PLAIN: Final = rf"(?!{_HASH}\Z)[A-Za-z0-9_][A-Za-z0-9._-]{{0,149}}"


def standalone_queue(schedule: str) -> str:
    """Name the queue of a schedule; one whose name no queue can have is named by its hash.

    >>> standalone_queue("mail-pump")
    'cron_standalone.mail-pump'
    """
    if re.fullmatch(_PLAIN, schedule):
        return f"{PREFIX}{schedule}"
    return f"{PREFIX}{blake2b(schedule.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"


def schedule_on(queue: str) -> str | None:
    """Name the schedule whose queue this is; None if it is hashed.

    >>> schedule_on(standalone_queue("mail-pump")), schedule_on(standalone_queue("mail pump"))
    ('mail-pump', None)
    """
    name = queue.removeprefix(PREFIX)
    return None if re.fullmatch(_HASH, name) else name


def is_standalone(queue: str) -> bool:
    """Tell whether a queue is that of such a schedule."""
    return queue.startswith(PREFIX)


def began_to_stay_alive(*, key: str, queue: str) -> bool:
    """Tell whether a run was begun as one that stays alive: one of an ordinary schedule was not.

    >>> began_to_stay_alive(key="every-2025-12-12T08:00:30Z", queue="cron_scheduler")
    False
    """
    return is_standalone(queue) or trigger_of(key) is Trigger.ALIVE


def restart_wait(runs: Sequence[timedelta]) -> timedelta:
    """Say how long after its end the next run begins.

    *runs* is how long the last ones took, newest first.

    >>> brief, steady = timedelta(seconds=2), timedelta(hours=1)
    >>> [restart_wait(runs).total_seconds() for runs in ([], [steady, brief], [brief] * 4)]
    [0.0, 0.0, 8.0]
    """
    brief = sum(1 for _ in takewhile(lambda run: run < STEADY, runs))
    if not brief:
        return timedelta(0)
    return exponential(FIRST_WAIT, brief - 1, LONGEST_WAIT)

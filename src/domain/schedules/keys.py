"""The execution key: the name of one run of a schedule, unique together with the schedule's id.

It is built from the UTC minute, of an interval the second, never from wall time: so the two runs of
a repeated hour have two keys, and a schedule whose zone is edited cannot run the same instant twice
(C12 in docs/compatibility.md). Runs at a boot, and what stays alive, have keys of their own.
"""

import enum
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b, sha256
from itertools import takewhile
from typing import Final
from uuid import NAMESPACE_OID, UUID, uuid5

import attrs

from ..retries.policy import exponential
from ..texts.moments import say_duration, say_moment
from ..texts.printable import echo

#: The most characters of any key, in a message or a row.
LONGEST_KEY = 255

#: How keys begin: of manual runs, of runs at a start or a boot, of those that are to stay alive,
#: of those that a backfill asks for, and of those that programs enqueue.
MANUAL, START, BOOT, ALIVE, BACKFILL = "manual-", "start-", "boot-", "alive-", "backfill-"
TASK = "task-"

#: How the keys of due instants begin: schedulers alone claim those.
CRON, ONCE, EVERY = DUE = "cron-", "once-", "every-"


def cron_key(due: datetime) -> str:
    """Name the run of a recurring schedule that is due at *due* (S1.5: no zero padding).

    >>> cron_key(datetime(2025, 12, 12, 8, 0, tzinfo=UTC))
    'cron-2025-12-12-8-0'
    """
    return f"{CRON}{_minute(due)}"


def once_key(due: datetime) -> str:
    return f"{ONCE}{_minute(due)}"


def every_key(due: datetime) -> str:
    """Name the run of a schedule with an interval: to the second, where minutes would collide.

    >>> every_key(datetime(2025, 12, 12, 8, 0, 30, tzinfo=UTC))
    'every-2025-12-12T08:00:30Z'
    """
    return f"{EVERY}{_second(due)}"


class Trigger(enum.StrEnum):
    """What a run came of."""

    TIME = "time"
    HAND = "hand"
    START = "start"
    BOOT = "boot"
    ALIVE = "alive"
    BACKFILL = "backfill"
    PROGRAM = "program"


_TRIGGERS: Final = {
    **dict.fromkeys(DUE, Trigger.TIME),
    MANUAL: Trigger.HAND,
    START: Trigger.START,
    BOOT: Trigger.BOOT,
    ALIVE: Trigger.ALIVE,
    BACKFILL: Trigger.BACKFILL,
    TASK: Trigger.PROGRAM,
}


def trigger_of(key: str) -> Trigger:
    """Tell by its key what a run came of; foreign messages are by hand.

    >>> trigger_of("cron-2025-12-12-8-0").value, trigger_of("alive-7").value, trigger_of("x").value
    ('time', 'alive', 'hand')
    """
    found = (trigger for begins, trigger in _TRIGGERS.items() if key.startswith(begins))
    return next(found, Trigger.HAND)


def alive_key(last: int) -> str:
    """Name the run that follows the execution *last* of what stays alive; 0 if there is none."""
    return f"{ALIVE}{last}"


def backfill_key(due: datetime) -> str:
    """Name the run of a past instant that is asked for: one for each, however often it is."""
    return f"{BACKFILL}{_second(due)}"


def keys_of_instant(due: datetime) -> tuple[str, ...]:
    """Give the keys that an instant's own run may have: its schedule may have been edited since."""
    if due.second:
        return (every_key(due),)
    return (cron_key(due), once_key(due), every_key(due))


def manual_key(uuid: UUID) -> str:
    return f"{MANUAL}{uuid}"


#: The most characters of a key that a program gives.
LONGEST_OWN_KEY: Final = LONGEST_KEY - len(TASK)


def task_key(key: str) -> str:
    """Name a run that a program enqueues, by the key that it gives.

    >>> task_key("mail:7"), own_key("task-mail:7")
    ('task-mail:7', 'mail:7')
    """
    return f"{TASK}{key}"


def own_key(key: str) -> str:
    return key.removeprefix(TASK)


def fault_of_own_key(key: str) -> str | None:
    """Say why a program cannot give that key; databases ignore blanks at the end of a text."""
    if 0 < len(key) <= LONGEST_OWN_KEY and key.isprintable() and key == key.strip():
        return None
    allowed = f"1-{LONGEST_OWN_KEY} printable characters without blanks at the ends"
    return f"{echo(key)} is no key: a key has {allowed}"


def start_key(uuid: UUID) -> str:
    return f"{START}{uuid}"


def reported_key(body: bytes) -> str:
    """Name a run that is known from a report of its failure alone; copies have one key."""
    return manual_key(uuid5(NAMESPACE_OID, sha256(body).hexdigest()))


def _minute(due: datetime) -> str:
    utc = due.astimezone(UTC)
    return f"{utc.year}-{utc.month}-{utc.day}-{utc.hour}-{utc.minute}"


def _second(due: datetime) -> str:
    second = due.astimezone(UTC).replace(microsecond=0, tzinfo=None)
    return f"{second.isoformat()}Z"


#: A boot longer ago causes no run. The ledger keeps its runs for so long: none happens twice.
LONGEST_AGO: Final = timedelta(days=1)


@attrs.frozen
class Boot:
    """One boot of one host: the kernel's name for it, and how many seconds *ago* it was."""

    name: str
    ago: float

    @property
    def key(self) -> str:
        return f"{BOOT}{self.name}"

    def why_not(self, changed_at: datetime, *, now: datetime) -> str | None:
        """Say why a boot is none of a schedule's; None if its run is due.

        It is, in the last day, and after a schedule was created, edited or enabled.
        """
        ago = timedelta(seconds=self.ago)
        if ago > LONGEST_AGO:
            return f"it was more than {say_duration(LONGEST_AGO)} ago"
        if now - ago <= changed_at:
            return f"the schedule was created, edited or enabled after it, {say_moment(changed_at)}"
        return None


# Schedules with `stay_alive` have a worker each (S1.3, C40 in docs/compatibility.md): their runs go
# through a queue that only `cronhare worker --standalone NAME` serves, and `cronhare up`.

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
    """Name the queue of a schedule; one whose name no queue can have is named by its hash."""
    if re.fullmatch(_PLAIN, schedule):
        return f"{PREFIX}{schedule}"
    return f"{PREFIX}{blake2b(schedule.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"


def schedule_on(queue: str) -> str | None:
    """Name the schedule whose queue this is; None if it is hashed."""
    name = queue.removeprefix(PREFIX)
    return None if re.fullmatch(_HASH, name) else name


def is_standalone(queue: str) -> bool:
    return queue.startswith(PREFIX)


def began_to_stay_alive(*, key: str, queue: str) -> bool:
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

"""The execution key: the name of one run of a schedule, unique together with the schedule's id.

It is built from the UTC minute, of an interval the second, never from wall time: so the two runs of
a repeated hour have two keys, and a schedule whose zone is edited cannot run the same instant twice
(C12 in docs/compatibility.md).
"""

import enum
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from uuid import NAMESPACE_OID, UUID, uuid5

#: The most characters of any key, in a message or a row.
LONGEST_KEY = 255

#: How the keys of manual runs and of runs at a start or a boot begin.
MANUAL, START, BOOT = "manual-", "start-", "boot-"

#: How the keys of runs begin that are to stay alive; the run before follows.
ALIVE = "alive-"

#: How the keys of runs begin that a backfill asks for.
BACKFILL = "backfill-"

#: How the keys of due instants begin: schedulers alone claim those.
CRON, ONCE, EVERY = DUE = "cron-", "once-", "every-"


def cron_key(due: datetime) -> str:
    """Name the run of a recurring schedule that is due at *due* (S1.5: no zero padding).

    >>> cron_key(datetime(2025, 12, 12, 8, 0, tzinfo=UTC))
    'cron-2025-12-12-8-0'
    """
    return f"{CRON}{_minute(due)}"


def once_key(due: datetime) -> str:
    """Name the only run of a schedule with a date-time.

    >>> once_key(datetime(2025, 12, 15, 15, 0, tzinfo=UTC))
    'once-2025-12-15-15-0'
    """
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


_TRIGGERS: Final = {
    **dict.fromkeys(DUE, Trigger.TIME),
    MANUAL: Trigger.HAND,
    START: Trigger.START,
    BOOT: Trigger.BOOT,
    ALIVE: Trigger.ALIVE,
    BACKFILL: Trigger.BACKFILL,
}


def trigger_of(key: str) -> Trigger:
    """Tell by its key what a run came of; foreign messages are by hand.

    >>> trigger_of("cron-2025-12-12-8-0").value, trigger_of("alive-7").value, trigger_of("x").value
    ('time', 'alive', 'hand')
    """
    found = (trigger for begins, trigger in _TRIGGERS.items() if key.startswith(begins))
    return next(found, Trigger.HAND)


def alive_key(last: int) -> str:
    """Name the run that follows the execution *last* of what stays alive; 0 if there is none.

    >>> alive_key(7)
    'alive-7'
    """
    return f"{ALIVE}{last}"


def backfill_key(due: datetime) -> str:
    """Name the run of a past instant that is asked for: one for each, however often it is.

    >>> backfill_key(datetime(2025, 12, 12, 8, 0, tzinfo=UTC))
    'backfill-2025-12-12T08:00:00Z'
    """
    return f"{BACKFILL}{_second(due)}"


def keys_of_instant(due: datetime) -> tuple[str, ...]:
    """Give the keys that an instant's own run may have: its schedule may have been edited since."""
    if due.second:
        return (every_key(due),)
    return (cron_key(due), once_key(due), every_key(due))


def manual_key(uuid: UUID) -> str:
    """Name a manual run; *uuid* is random, and the caller's."""
    return f"{MANUAL}{uuid}"


def start_key(uuid: UUID) -> str:
    """Name a run at a start of `cronhare up`; *uuid* is random, and the caller's."""
    return f"{START}{uuid}"


def boot_key(boot: str) -> str:
    """Name a schedule's run at a boot; *boot* is the kernel's name for it.

    >>> boot_key("0b5c8f7e")
    'boot-0b5c8f7e'
    """
    return f"{BOOT}{boot}"


def reported_key(body: bytes) -> str:
    """Name a run that is known from a report of its failure alone; copies have one key."""
    return manual_key(uuid5(NAMESPACE_OID, sha256(body).hexdigest()))


def _minute(due: datetime) -> str:
    utc = due.astimezone(UTC)
    return f"{utc.year}-{utc.month}-{utc.day}-{utc.hour}-{utc.minute}"


def _second(due: datetime) -> str:
    second = due.astimezone(UTC).replace(microsecond=0, tzinfo=None)
    return f"{second.isoformat()}Z"

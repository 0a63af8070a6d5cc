"""The execution key: the name of one run of a schedule, unique together with the schedule's id.

It is built from the UTC minute, never from wall time: a repeated hour has two keys, so that
neither run is lost, and a schedule whose zone is edited cannot run the same instant twice
(C12 in docs/compatibility.md).
"""

from datetime import UTC, datetime
from hashlib import sha256
from uuid import NAMESPACE_OID, UUID, uuid5

#: No key is longer, in letters: neither ours, nor one that stands in a row.
LONGEST_KEY = 255

#: How the key of a run begins that somebody asked for.
MANUAL = "manual-"


#: How the key of a run begins that a boot asked for.
BOOT = "boot-"

#: How the keys begin of what is due by itself: schedulers alone claim those.
CRON, ONCE = "cron-", "once-"


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


def manual_key(uuid: UUID) -> str:
    """Name a run that somebody asked for; *uuid* is the caller's chance."""
    return f"{MANUAL}{uuid}"


def boot_key(boot: str) -> str:
    """Name a schedule's run at a boot: however often it is asked for, it is the same one.

    >>> boot_key("0b5c8f7e")
    'boot-0b5c8f7e'
    """
    return f"{BOOT}{boot}"


def reported_key(body: bytes) -> str:
    """Name a run of which nothing is known but the message that reports its failure.

    Copies of a message have one key.
    """
    return manual_key(uuid5(NAMESPACE_OID, sha256(body).hexdigest()))


def _minute(due: datetime) -> str:
    utc = due.astimezone(UTC)
    return f"{utc.year}-{utc.month}-{utc.day}-{utc.hour}-{utc.minute}"

"""How often a message was nacked, read from its headers, and how much of that can be believed.

Failures that we decided of stand in the ledger, and are read nowhere else. Nacks of anybody who
shares a task queue are known to the broker alone: the `rejected` entries of `x-death`, whichever
queue it was. `x-death[0].count`, as S0 reads it, is wrong: after one trip the first entry is the
retry queue, expired (C3).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

#: Tells foreign workers and people how often a run has failed. Nobody here reads it.
DEATHS_HEADER = "cron-deaths"

#: More nacks than any policy allows. A forged count must not become a number that no column holds.
MOST = 1_000_000


class Nacks(msgspec.Struct, frozen=True, kw_only=True):
    """How often the broker is said to have seen a message nacked.

    *trip* is how long a nacked message is away, in `cron_scheduler_retry`.
    """

    count: int
    trip: timedelta

    def since(self, published: datetime | None, *, now: datetime) -> int:
        """Count the nacks of a message that was there to be taken from *published* on.

        Anybody may send any header, so no more of them count than there was time for; a trip that
        is more than half over counts, since it began a little before we noted it.

        >>> nacks, noon = Nacks(count=9, trip=timedelta(seconds=30)), datetime(2026, 3, 2, 12)
        >>> nacks.since(noon, now=noon), nacks.since(noon, now=noon + timedelta(seconds=61))
        (0, 2)
        """
        if published is None or now <= published:
            return 0
        return min(self.count, (now - published + self.trip / 2) // self.trip, MOST)


NO_NACKS = Nacks(count=0, trip=timedelta(seconds=1))


def nacks_of(headers: Mapping[str, object]) -> int:
    """Count the nacks that a message tells of, `MOST` at the most; what is malformed counts 0.

    >>> nacks_of({})
    0
    >>> nacked = {"queue": "cron_scheduler", "reason": "rejected", "count": 2}
    >>> expired = {"queue": "cron_scheduler_retry", "reason": "expired", "count": 2}
    >>> nacks_of({"x-death": [expired, nacked]})
    2
    """
    x_death = headers.get("x-death")
    if not isinstance(x_death, list):
        return 0
    counts = (
        _count(entry.get("count"))
        for entry in x_death
        if isinstance(entry, Mapping) and entry.get("reason") == "rejected"
    )
    return min(sum(counts), MOST)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

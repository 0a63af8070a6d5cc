"""How often a message was nacked, from its headers, and how much of that can be believed.

Our own failures are counted in the ledger alone. Nacks by others that share a task queue are known
to the broker alone: the `rejected` entries of `x-death`. `x-death[0].count` is another number:
after one trip the first entry is the retry queue, expired (C3 in docs/compatibility.md).
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

#: How often a run has failed, for foreign workers and people. We never read it.
DEATHS_HEADER = "cron-deaths"

#: Why a quorum queue dead-letters what came back to it too often.
OVERDELIVERED = "delivery_limit"

#: More nacks than any policy allows: a forged count must not overflow its column.
MOST = 1_000_000


class Nacks(msgspec.Struct, frozen=True, kw_only=True):
    """How often a message was nacked by queue, as its headers say.

    *trip* is how long a nacked message stays in `cron_scheduler_retry`.
    """

    by_queue: Mapping[str, int]
    trip: timedelta

    def since(self, published: datetime | None, *, queue: str, now: datetime) -> int:
        """Count the nacks of a message that could be taken from *published* on.

        Only those in *queue*, its execution's own, count. Headers can be forged, so no more of
        them count than there was time for; a trip that is more than half over counts, as it began
        a little before we noted it.

        >>> nacks = Nacks(by_queue={"reports": 9}, trip=timedelta(seconds=30))
        >>> noon, soon = datetime(2026, 3, 2, 12), datetime(2026, 3, 2, 12, 1, 1)
        >>> [nacks.since(noon, queue="reports", now=now) for now in (noon, soon)]
        [0, 2]
        >>> nacks.since(noon, queue="mails", now=soon)
        0
        """
        if published is None or now <= published:
            return 0
        count = self.by_queue.get(queue, 0)
        return min(count, (now - published + self.trip / 2) // self.trip, MOST)


def nacks_of(headers: Mapping[str, object]) -> dict[str, int]:
    """Count the nacks in a message's headers by queue; malformed entries count 0.

    >>> nacks_of({})
    {}
    >>> nacked = {"queue": "cron_scheduler", "reason": "rejected", "count": 2}
    >>> expired = {"queue": "cron_scheduler_retry", "reason": "expired", "count": 2}
    >>> nacks_of({"x-death": [expired, nacked]})
    {'cron_scheduler': 2}
    """
    x_death = headers.get("x-death")
    nacks = Counter[str]()
    for entry in x_death if isinstance(x_death, list) else ():
        if isinstance(entry, Mapping) and entry.get("reason") == "rejected":
            queue = entry.get("queue")
            nacks[queue if isinstance(queue, str) else ""] += _count(entry.get("count"))
    return dict(nacks)


def was_overdelivered(headers: Mapping[str, object]) -> bool:
    """Tell whether a message has met a queue's delivery limit, as its headers say.

    >>> was_overdelivered({"x-death": [{"queue": "reports", "reason": "delivery_limit"}]})
    True
    >>> was_overdelivered({"x-death": [{"queue": "reports", "reason": "rejected"}]})
    False
    """
    x_death = headers.get("x-death")
    entries = x_death if isinstance(x_death, list) else ()
    return any(
        isinstance(each, Mapping) and each.get("reason") == OVERDELIVERED for each in entries
    )


def total_nacks(nacks: Mapping[str, int]) -> int:
    """Count the nacks in all queues, `MOST` at most.

    >>> total_nacks({"cron_scheduler": 2, "cron_scheduler.reports": 1})
    3
    """
    return min(sum(nacks.values()), MOST)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

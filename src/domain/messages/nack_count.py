"""How often a message was nacked, read from its headers, and how much of that can be believed.

Failures that we decided of stand in the ledger, and are read nowhere else. Nacks of anybody who
shares a task queue are known to the broker alone: the `rejected` entries of `x-death`.
`x-death[0].count` is no such number: after one trip the first entry is the retry queue, expired
(C3 in docs/compatibility.md).
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

#: Tells foreign workers and people how often a run has failed. Nobody here reads it.
DEATHS_HEADER = "cron-deaths"

#: More nacks than any policy allows. A forged count must not become a number that no column holds.
MOST = 1_000_000


class Nacks(msgspec.Struct, frozen=True, kw_only=True):
    """How often the broker is said to have seen a message nacked, by queue.

    *trip* is how long a nacked message is away, in `cron_scheduler_retry`.
    """

    by_queue: Mapping[str, int]
    trip: timedelta

    def since(self, published: datetime | None, *, queue: str, now: datetime) -> int:
        """Count the nacks of a message that was there to be taken from *published* on.

        Only those in *queue* count, which is its execution's own. Anybody may send any header, so
        no more of them count than there was time for; a trip that is more than half over counts,
        since it began a little before we noted it.

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


NO_NACKS = Nacks(by_queue={}, trip=timedelta(seconds=1))


def nacks_of(headers: Mapping[str, object]) -> dict[str, int]:
    """Count the nacks that a message tells of, by queue; what is malformed counts 0.

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


def total_nacks(nacks: Mapping[str, int]) -> int:
    """Count the nacks in whichever queues, `MOST` at the most.

    >>> in_all({"cron_scheduler": 2, "cron_scheduler.reports": 1})
    3
    """
    return min(sum(nacks.values()), MOST)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

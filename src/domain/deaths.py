"""How often a message has died, read from its headers.

`x-death[0].count`, as S0 reads it, is wrong: after one trip the first entry is the retry queue,
expired (C3). Our own header counts what we decided; the `rejected` entries count the nacks of
anybody else who shares a task queue, whichever it was: a message that is nacked in
`cron_scheduler.reports` comes back through `cron_scheduler`.
"""

from collections.abc import Mapping

DEATHS_HEADER = "cron-deaths"

#: More deaths than any policy allows. A forged count must not become a number that no column holds.
MOST = 1_000_000


def deaths_of(headers: Mapping[str, object]) -> int:
    """Count the deaths of a message, `MOST` at the most; whatever is malformed counts 0.

    >>> deaths_of({})
    0
    >>> nacked = {"queue": "cron_scheduler", "reason": "rejected", "count": 2}
    >>> expired = {"queue": "cron_scheduler_retry", "reason": "expired", "count": 2}
    >>> deaths_of({"x-death": [expired, nacked]})
    2
    >>> deaths_of({"cron-deaths": 1, "x-death": [expired, nacked]})
    3
    """
    return min(_count(headers.get(DEATHS_HEADER)) + _rejections(headers.get("x-death")), MOST)


def _rejections(x_death: object) -> int:
    if not isinstance(x_death, list):
        return 0
    return sum(
        _count(entry.get("count"))
        for entry in x_death
        if isinstance(entry, Mapping) and entry.get("reason") == "rejected"
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

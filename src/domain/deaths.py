"""How often a message has died, read from its headers.

`x-death[0].count`, as S0 reads it, is wrong: after one trip the first entry is the retry queue,
expired (C3). Our own header counts what we decided; the `rejected` entry of the task queue counts
the nacks of anybody else who shares it.
"""

from collections.abc import Mapping

DEATHS_HEADER = "cron-deaths"


def deaths_of(headers: Mapping[str, object], queue: str) -> int:
    """Count the deaths of a message that came from *queue*; whatever is malformed counts 0.

    >>> deaths_of({}, "cron_scheduler")
    0
    >>> nacked = {"queue": "cron_scheduler", "reason": "rejected", "count": 2}
    >>> expired = {"queue": "cron_scheduler_retry", "reason": "expired", "count": 2}
    >>> deaths_of({"x-death": [expired, nacked]}, "cron_scheduler")
    2
    >>> deaths_of({"cron-deaths": 1, "x-death": [expired, nacked]}, "cron_scheduler")
    3
    """
    return _count(headers.get(DEATHS_HEADER)) + _rejections(headers.get("x-death"), queue)


def _rejections(x_death: object, queue: str) -> int:
    if not isinstance(x_death, list):
        return 0
    return sum(
        _count(entry.get("count"))
        for entry in x_death
        if isinstance(entry, Mapping)
        and entry.get("queue") == queue
        and entry.get("reason") == "rejected"
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

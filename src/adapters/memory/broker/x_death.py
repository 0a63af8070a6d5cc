"""The headers that the broker adds to a message when it dead-letters it.

As RabbitMQ 3.10 to 3.13 (www.rabbitmq.com/docs/dlx), in the order of 3.13.3 and later: the newest
event first. RabbitMQ 4 differs in one point: it ignores an `x-death` that a client sends.
"""

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime

import attrs


class Reason(enum.StrEnum):
    """Why a message left its queue for the dead-letter exchange."""

    REJECTED = "rejected"
    EXPIRED = "expired"


@attrs.frozen(kw_only=True)
class Death:
    """One dead-lettering. *exchange* and *key* are how the message came to *queue*."""

    queue: str
    reason: Reason
    exchange: str
    key: str
    at: datetime

    def entry(self) -> dict[str, object]:
        """Make the first `x-death` entry for this queue and reason."""
        return {
            "count": 1,
            "reason": self.reason.value,
            "queue": self.queue,
            "time": self.at.replace(microsecond=0),
            "exchange": self.exchange,
            "routing-keys": [self.key],
        }

    def same_as(self, entry: object) -> bool:
        """Whether *entry* already counts deaths in this queue for this reason."""
        return (
            isinstance(entry, dict)
            and entry.get("queue") == self.queue
            and entry.get("reason") == self.reason.value
        )


def add_death(headers: Mapping[str, object], death: Death) -> dict[str, object]:
    """Return *headers* with *death* added.

    There is one entry per queue and reason, which moves to the front when its count rises. The
    rest of it, the time too, is of the first such event.
    """
    known = headers.get("x-death")
    first = (
        {}
        if "x-death" in headers
        else {
            "x-first-death-reason": death.reason.value,
            "x-first-death-queue": death.queue,
            "x-first-death-exchange": death.exchange,
        }
    )
    entries = known if isinstance(known, list) else []  # a client's nonsense is replaced
    return {**headers, **first, "x-death": _counted(entries, death)}


def _counted(entries: Sequence[object], death: Death) -> list[object]:
    same = [entry for entry in entries if isinstance(entry, dict) and death.same_as(entry)]
    others = [entry for entry in entries if not death.same_as(entry)]
    if not same:
        return [death.entry(), *others]
    count = same[0].get("count")
    so_far = count if isinstance(count, int) else len(same)
    return [{**same[0], "count": so_far + 1}, *others]


def is_cycle(queue: str, headers: Mapping[str, object]) -> bool:
    """Whether the message would come back to *queue* without a rejection since.

    RabbitMQ drops such a message, silently for its publisher: it would circle for ever. An entry
    that no broker writes counts as a rejection.
    """
    deaths = headers.get("x-death")
    for entry in deaths if isinstance(deaths, list) else ():
        if not isinstance(entry, dict) or entry.get("reason") == Reason.REJECTED.value:
            return False
        if entry.get("queue") == queue:
            return True
    return False

"""Event topics: what a schedule may name instead of a task (S3.2, S3.3, C27).

These ids are lines of docs/compatibility.md. A task of a jobs file listens to topics by name; of
one file no two tasks listen to the same, so that a run has one end.
"""

import enum
import re
from typing import Final

from .task import TaskRef, TaskType, assigned_number

#: Characters of a topic.
LONGEST_TOPIC: Final = 255

#: How a topic is named.
TOPIC: Final = rf"^[A-Za-z0-9][A-Za-z0-9._:/-]{{0,{LONGEST_TOPIC - 1}}}\Z"

#: Topics that one task listens to.
MOST_TOPICS: Final = 100

ALLOWED: Final = (
    f"letters, digits, and . _ : / -, at most {LONGEST_TOPIC}, beginning with a letter or digit"
)

#: No jobs file has this for its source.
_NO_SOURCE: Final = ""


class NoListener(enum.StrEnum):
    """What becomes of an event to which nobody listens."""

    COMPLETE = "complete"
    FAIL = "fail"


def fault_of_topic(topic: str) -> str | None:
    """Say why a topic cannot be named so.

    >>> fault_of_topic("orders.due")
    >>> fault_of_topic("orders *").partition(": ")[0]
    'a topic is named with letters, digits, and . _ '
    """
    return None if re.fullmatch(TOPIC, topic) else f"a topic is named with {ALLOWED}"


def ref_of_topic(topic: str) -> TaskRef:
    """Number a topic, for messages: they name their task by type and number alone.

    >>> ref_of_topic("orders.due") == ref_of_topic("orders.due") != ref_of_topic("orders.paid")
    True
    """
    return TaskRef(TaskType.EVENT.value, assigned_number(_NO_SOURCE, topic))


def say_unheard(name: str) -> str:
    """Say of an event that nobody heard it: the one line that is kept as its attempt's output."""
    return f"Nobody listens to {name}: completed"

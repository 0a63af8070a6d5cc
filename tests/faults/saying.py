"""What the processes of an arena said in their logs, counted."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.services.finding import wait_until

#: How many executions a reconciler sends, in the words of its log.
_MANY = re.compile(r"(?:Sending|Taking up) ([\d,]+) ")

#: Seconds after which nobody says any more what he has not said yet.
LISTENING = 60.0


@attrs.define
class Said:
    """Counts of what was said: the log's actions, and the executions that a reconciler *sent*."""

    actions: Counter[str] = attrs.field(factory=Counter)
    sent: int = 0

    @property
    def fenced(self) -> int:
        """The deliveries that were not started again."""
        return self.actions["attempt.fenced"]

    @property
    def bugs(self) -> int:
        """The faults of its own that a process met."""
        return sum(many for action, many in self.actions.items() if action.endswith("fault"))


def said(logs: Path) -> Said:
    counts = Said()
    for line in lines(logs):
        action = str(line.get("action", ""))
        counts.actions[action] += 1
        if action in {"reconcile", "recover"}:
            counts.sent += _many(line["message"])
    return counts


@contextmanager
def hearing(logs: Path, action: str, *, times: int = 1) -> Iterator[None]:
    """Have somebody say *action* so many times between now and soon after the end of the block.

    Raises:
        TimeoutError: nobody did.
    """
    before = said(logs).actions[action]
    yield
    wait_until(
        lambda: said(logs).actions[action] - before >= times,
        seconds=LISTENING,
        every=0.2,
        what=f"saying {action} {times} times",
    )


def lines(logs: Path) -> Iterator[dict[str, Any]]:
    """Give the lines; what is none, like a bare traceback, is a fault."""
    for path in sorted(logs.glob("*.log")):
        for text in path.read_text().splitlines():
            try:
                yield json.loads(text)
            except ValueError:
                yield {"action": "fault", "level": "ERROR", "message": text}


def _many(message: str) -> int:
    found = _MANY.match(message)
    assert found is not None, f"this log line has changed its words: {message}"
    return int(found[1].replace(",", ""))

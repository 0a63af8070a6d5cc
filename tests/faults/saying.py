"""What the processes of an arena said in their logs, counted."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

#: How many executions a reconciler sends, in the words of its log.
_MANY = re.compile(r"(?:Sending|Taking up) (\d+) ")


@attrs.define
class Said:
    """Counts of what was said.

    *fenced* are the deliveries that were not started again, *sent* the executions that a
    reconciler sent, *bugs* the faults of its own that a process met.
    """

    fenced: int = 0
    sent: int = 0
    bugs: int = 0


def said(logs: Path) -> Said:
    """Read all logs of a folder."""
    counts = Said()
    for line in _lines(logs):
        match str(line.get("action", "")):
            case "attempt.fenced":
                counts.fenced += 1
            case "reconcile" | "recover":
                counts.sent += _many(line["message"])
            case action if action.endswith("fault"):
                counts.bugs += 1
    return counts


def _lines(logs: Path) -> Iterator[dict[str, Any]]:
    """Give the lines; what is none, like a bare traceback, is a fault."""
    for path in sorted(logs.glob("*.log")):
        for text in path.read_text().splitlines():
            try:
                yield json.loads(text)
            except ValueError:
                yield {"action": "fault"}


def _many(message: str) -> int:
    found = _MANY.match(message)
    assert found is not None, f"this log line has changed its words: {message}"
    return int(found[1])

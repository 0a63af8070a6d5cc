"""When many events of one kind come for a target, it is told of them together."""

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

import attrs
import msgspec

from ..schedules.notify import DIGEST, type_of
from ..texts.words import counted
from .alerts import AlertSeverity
from .events import LARGEST_EVENT, OutboxRow

#: Within so long a target is told of `most` events of a kind, each by itself.
WINDOW: Final = timedelta(minutes=1)

#: Events that one message tells of, and those of them that it has in full.
MOST_TOGETHER: Final = 1_000
SHOWN: Final = 5

_SEVERITIES: Final = ("info", *reversed(AlertSeverity))


class Turn(enum.Enum):
    """What becomes of events of one kind that wait for a target."""

    EACH = "each by itself"
    TOGETHER = "all in one message"
    HOLD = "later, to come together"


def decide(waiting: int, *, lately: int, most: int) -> Turn:
    """Decide for *waiting* events, of which the target was told of *lately* within the `WINDOW`.

    A message about many counts for *most*, so that the next such one comes when that is over.

    >>> [decide(n, lately=0, most=5).name for n in (5, 6)]
    ['EACH', 'TOGETHER']
    >>> decide(6, lately=1, most=5).name, decide(1, lately=5, most=5).name
    ('HOLD', 'HOLD')
    """
    if lately + waiting <= most:
        return Turn.EACH
    return Turn.HOLD if lately else Turn.TOGETHER


def digest(rows: Sequence[OutboxRow]) -> OutboxRow:
    """Write one message about events of a kind, the earliest first; they have one target."""
    first = rows[0]
    documents = [_document(row) for row in rows]
    names = Counter(row.schedule_name for row in rows if row.schedule_name)
    kind = type_of(first.event)
    message = f"{counted(len(rows), 'event')} of {kind}"
    if names:
        most = ", ".join(f"{name} ({count})" for name, count in names.most_common(SHOWN))
        rest = len(names) - SHOWN
        message += f": {most}" + (f", and {counted(rest, 'other')}" if rest > 0 else "")
    key = f"{DIGEST}:{first.event}:{first.id}:{len(rows)}"
    said = {
        "severity": max(map(_severity, documents), key=_SEVERITIES.index),
        "title": f"{len(rows)} times {first.event}",
        "message": message,
        "task": None,
    }
    data = {
        "event": kind,
        "count": len(rows),
        "schedules": dict(names.most_common(SHOWN)),
        "first": [*_that_fit(rows, documents)],
        "alert": said,
    }
    at = min(row.occurred_at for row in rows)
    document = {"id": key, "type": DIGEST, "timestamp": at, "data": data}
    return attrs.evolve(
        first,
        event_key=key,
        event=DIGEST,
        scheduler_id=0,
        schedule_name="",
        execution_id=None,
        occurred_at=at,
        payload=msgspec.json.encode(document).decode(),
    )


def _that_fit(rows: Sequence[OutboxRow], documents: Sequence[Any]) -> Iterator[Any]:
    """Give the first few, as long as an event may be."""
    left = LARGEST_EVENT // 2
    for row, document in zip(rows[:SHOWN], documents, strict=False):
        left -= len(row.payload)
        if left < 0:
            return
        yield document


def _document(row: OutboxRow) -> Any:  # noqa: ANN401 - JSON
    try:
        return msgspec.json.decode(row.payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None  # somebody wrote into its row


def _severity(document: object) -> str:
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, dict):
        return "info"
    metadata = data.get("metadata")
    said = data.get("alert") or (metadata.get("alert") if isinstance(metadata, dict) else None)
    severity = said.get("severity") if isinstance(said, dict) else None
    return severity if severity in _SEVERITIES else "info"

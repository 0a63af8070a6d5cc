"""An event in a few lines for people, where no machine is to read it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.schedules.notify import EventKind
from cronhare.domain.texts.printable import printable, shortened

#: Characters of a title, and of a body: a text message has not many.
LONGEST_TITLE: Final = 160
LONGEST_BODY: Final = 1_500

_KINDS: Final = {
    EventKind.RECOVERED: "success",
    EventKind.ARRIVED: "info",
    EventKind.SKIPPED: "warning",
    EventKind.LATE: "warning",
    EventKind.ALERT: "warning",
}


@attrs.frozen(kw_only=True)
class Message:
    """What people read; *kind* is one of Apprise's: info, success, warning, failure."""

    title: str
    body: str
    kind: str


def spoken(event: OutboxRow) -> Message:
    """Say an event."""
    data = _data(event.payload)
    alert = _mapping(data.get("alert") or _mapping(data.get("metadata")).get("alert"))
    what = event.schedule_name or _text(alert.get("title")) or _text(data.get("rule"))
    title = f"[cronhare] {what}: {event.event}" if what else f"[cronhare] {event.event}"
    return Message(
        title=shortened(printable(title), LONGEST_TITLE),
        body=shortened("\n".join(_lines(event, data, alert)), LONGEST_BODY),
        kind=_kind(event.event, alert),
    )


def _lines(event: OutboxRow, data: Mapping[str, Any], alert: Mapping[str, Any]) -> Iterator[str]:
    metadata = _mapping(data.get("metadata"))
    said = (alert.get("message"), data.get("lastError"), data.get("reason"))
    yield from dict.fromkeys(printable(text) for text in map(_text, said) if text)
    if event.execution_id is not None:
        yield f"execution {event.execution_id}"
    if due := _text(metadata.get("dueAt")):
        yield f"due at {printable(due)}"
    yield f"at {event.occurred_at.isoformat(timespec='seconds')}"


def _kind(event: str, alert: Mapping[str, Any]) -> str:
    if alert.get("severity") in {"high", "critical"}:
        return "failure"
    return _KINDS.get(EventKind(event), "failure") if event in {*EventKind} else "info"


def _data(payload: str) -> Mapping[str, Any]:
    try:
        document = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}  # somebody wrote into its row
    return _mapping(_mapping(document).get("data"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

"""An event in words for people: a message of Apprise, or a mail."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.lifecycle.pings import RunEnd
from cronhare.domain.nodes import read_node
from cronhare.domain.schedules.notify import EventKind
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import printable, shortened
from cronhare.ports.events import MailContent

#: Characters of a title, and of a body: a text message has not many.
LONGEST_TITLE: Final = 160
LONGEST_BODY: Final = 1_500

#: Lines of a run's output that a mail has.
MOST_LINES: Final = 30

_KINDS: Final = {
    EventKind.RECOVERED: "success",
    EventKind.ARRIVED: "info",
    EventKind.SKIPPED: "warning",
    EventKind.LATE: "warning",
    EventKind.ALERT: "warning",
}


_VERBS: Final[Mapping[str, str]] = {
    EventKind.FAILED: "failed",
    EventKind.QUARANTINED: "was quarantined",
    EventKind.RECOVERED: "recovered",
    EventKind.SKIPPED: "was skipped",
    EventKind.LATE: "is late",
    EventKind.ARRIVED: "is due",
}


@attrs.frozen(kw_only=True)
class Message:
    """What people read; *kind* is one of Apprise's: info, success, warning, failure."""

    title: str
    body: str
    kind: str


def spoken(event: OutboxRow, end: RunEnd | None = None) -> Message:
    """Say an event, of a run that came to that *end*."""
    data = _data(event.payload)
    what, why = _what(event, data, end), _why(data)
    title = ": ".join(filter(None, (what, why.partition("\n")[0])))
    return Message(
        title=shortened(printable(title), LONGEST_TITLE),
        body=shortened(
            "\n".join(filter(None, (printable(why), *_facts(event, data)))), LONGEST_BODY
        ),
        kind=_kind(event.event, _alert(data)),
    )


def letter(event: OutboxRow, end: RunEnd | None = None, *, web: str | None = None) -> MailContent:
    """Write a mail: what happened, the last lines that the run wrote, and where more is said.

    *web* is the host at which people find the page.
    """
    data = _data(event.payload)
    message, why = spoken(event, end), _why(data)
    said = printable(_what(event, data, end) + (f": {why}" if why else ""))
    lines = [f"{said}.", "", *_facts(event, data)]
    texts = (end.stdout, end.stderr) if end else ()
    wrote = [line for text in texts for line in text.splitlines()][-MOST_LINES:]
    if wrote:
        lines += ["", "The last lines that it wrote:", ""]
        lines += [f"    {printable(line)}" for line in wrote]
    if (id_ := event.execution_id) is not None:
        more = f"https://{web}/ui/executions/{id_}" if web else f"cronhare explain {id_}"
        lines += ["", f"More: {more}"]
    return MailContent(subject=message.title, text="\n".join(lines))


def _what(event: OutboxRow, data: Mapping[str, Any], end: RunEnd | None) -> str:
    """Say what is told of, what happened to it, and where."""
    named = (event.schedule_name, _alert(data).get("title"), data.get("rule"), event.event)
    is_test = _mapping(data.get("metadata")).get("test") is True
    verb = "" if is_test else _VERBS.get(event.event, "")
    node = read_node(end.node) if end and end.node else None
    where = f"on {node.host}" if node else ""
    return " ".join(filter(None, (next(filter(None, map(_text, named)), ""), verb, where)))


def _why(data: Mapping[str, Any]) -> str:
    said = (_alert(data).get("message"), *map(data.get, ("lastError", "reason", "text")))
    return next(filter(None, map(_text, said)), "").strip().rstrip(".")


def _facts(event: OutboxRow, data: Mapping[str, Any]) -> Iterator[str]:
    metadata = _mapping(data.get("metadata"))
    if event.execution_id is not None:
        attempt = data.get("attempts") or metadata.get("attempt")
        yield f"execution {event.execution_id}" + (
            f", attempt {attempt}" if isinstance(attempt, int) else ""
        )
    if due := _text(metadata.get("dueAt")):
        yield f"due at {printable(due)}"
    yield f"at {say_moment(event.occurred_at)}"


def _alert(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(data.get("alert"))


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

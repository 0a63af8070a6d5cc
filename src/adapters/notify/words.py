"""An event in words for people: a message of Apprise, or a mail."""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from cronhare.domain.events.outbox import EventData, OutboxRow, RunEnd, read_event
from cronhare.domain.events.targets import EventKind
from cronhare.domain.nodes import read_node
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import printable, shortened
from cronhare.ports.events import MailContent

#: Characters of a title, and of a body: a text message has not many.
LONGEST_TITLE: Final = 160
LONGEST_BODY: Final = 1_500

#: Lines of a run's output that a mail has.
MOST_LINES: Final = 30

#: What is said of each kind of event, behind the name of a schedule, and how bad Apprise makes it.
_SAID: Final[Mapping[str, tuple[str, str]]] = {
    EventKind.FAILED: ("failed", "failure"),
    EventKind.QUARANTINED: ("was quarantined", "failure"),
    EventKind.PAUSED: ("is paused", "failure"),
    EventKind.RECOVERED: ("recovered", "success"),
    EventKind.SKIPPED: ("was skipped", "warning"),
    EventKind.LATE: ("is late", "warning"),
    EventKind.ARRIVED: ("is due", "info"),
    EventKind.ALERT: ("", "warning"),
    EventKind.CLEARED: ("", "success"),
}
_OTHER: Final = ("", "info")


@attrs.frozen(kw_only=True)
class Message:
    """What people read; *kind* is one of Apprise's: info, success, warning, failure."""

    title: str
    body: str
    kind: str


def spoken(event: OutboxRow, end: RunEnd | None = None) -> Message:
    data = read_event(event)
    what, why = _what(event, data, end), _why(data)
    title = ": ".join(filter(None, (what, why.partition("\n")[0])))
    body = "\n".join(filter(None, (printable(why), *_facts(event, data))))
    is_bad = data.alert.severity in {"high", "critical"}
    return Message(
        title=shortened(printable(title), LONGEST_TITLE),
        body=shortened(body, LONGEST_BODY),
        kind="failure" if is_bad else _SAID.get(event.event, _OTHER)[1],
    )


def letter(event: OutboxRow, end: RunEnd | None = None, *, web: str | None = None) -> MailContent:
    """Write a mail: what happened, the last lines that the run wrote, and where more is said.

    *web* is the host at which people find the page.
    """
    data = read_event(event)
    said = ": ".join(filter(None, (_what(event, data, end), _why(data))))
    lines = [f"{printable(said)}.", "", *_facts(event, data)]
    texts = (end.stdout, end.stderr) if end else ()
    wrote = [line for text in texts for line in text.splitlines()][-MOST_LINES:]
    if wrote:
        lines += ["", "The last lines that it wrote:", ""]
        lines += [f"    {printable(line)}" for line in wrote]
    if (id_ := event.execution_id) is not None:
        more = f"https://{web}/ui/executions/{id_}" if web else f"cronhare explain {id_}"
        lines += ["", f"More: {more}"]
    return MailContent(subject=spoken(event, end).title, text="\n".join(lines))


def _what(event: OutboxRow, data: EventData, end: RunEnd | None) -> str:
    named = event.schedule_name or data.alert.title or data.rule or event.event
    verb = "" if data.metadata.test else _SAID.get(event.event, _OTHER)[0]
    node = read_node(end.node) if end and end.node else None
    return " ".join(filter(None, (named, verb, f"on {node.host}" if node else "")))


def _why(data: EventData) -> str:
    said = data.alert.message or data.last_error or data.reason or data.text
    return said.strip().rstrip(".")


def _facts(event: OutboxRow, data: EventData) -> Iterator[str]:
    if event.execution_id is not None:
        attempt = data.attempts or data.metadata.attempt
        yield f"execution {event.execution_id}" + (f", attempt {attempt}" if attempt else "")
    if data.metadata.due_at:
        yield f"due at {printable(data.metadata.due_at)}"
    yield f"at {say_moment(event.occurred_at)}"

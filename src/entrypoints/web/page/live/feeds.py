"""What can be listened to."""

import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol
from uuid import uuid4

import attrs

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.reading.now import Overview
from cronhare.application.administration.reading.output import CutShort, Reading, Written
from cronhare.domain.execution import UNFINISHED, State
from cronhare.domain.texts.moments import iso_moment
from cronhare.ports.records import RecordsPort

from ..bars import minutes_chart

#: The feed of what happens now.
NOW: Final = "now"

#: Seconds between two looks at *Now*, and at what changes less often, or costs more to look at.
OFTEN: Final = 2.0
LESS_OFTEN: Final = 5.0

#: The parts of *Now*, each a template of its own.
PARTS: Final = ("figures", "running", "late", "failing", "coming", "latest", "nodes")

#: Letters of output that are kept for those who come later.
MOST_KEPT: Final = 512 * 1024

#: What is counted on by the page itself.
_COUNTED_ON: Final = re.compile(r"(<time [^>]*>)[^<]*")


@attrs.frozen
class Event:
    """Something new; *data* is JSON."""

    id: str
    name: str
    data: str


class Feed(Protocol):
    """Something to listen to. One thread at a time looks; another one keeps, and reads what is."""

    @property
    def every(self) -> float:
        """Seconds between two looks."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""

    def look(self) -> Sequence[Event]:
        """Give what is new since the last look."""

    def keep(self, new: Sequence[Event]) -> None:
        """Keep what a look has found for those who come later, as it is given to those there."""

    def after(self, id_: str | None) -> Sequence[Event]:
        """Give what a listener has missed whose last event had this id."""
        ...


class PartsFeed:
    """Sends those parts of a page that have changed; to a new listener, all of them."""

    is_over = False

    def __init__(
        self, render: Callable[[], tuple[datetime, Mapping[str, str]]], *, every: float = OFTEN
    ) -> None:
        """*render* makes all parts, and says of when they are."""
        self.every = every
        self._render = render
        self._parts: Mapping[str, str] = {}
        self._id, self._now = "", ""

    def look(self) -> Sequence[Event]:
        now, rendered = self._render()
        changed = {
            part: text
            for part, text in rendered.items()
            if _steady(text) != _steady(self._parts.get(part, ""))
        }
        self._parts, self._now = rendered, iso_moment(now)
        if not changed:
            return ()
        self._id = uuid4().hex
        return [self._event(changed)]

    def keep(self, new: Sequence[Event]) -> None:
        """See `Feed`: a part that comes twice takes its own place."""

    def after(self, id_: str | None) -> Sequence[Event]:
        return () if not self._parts or id_ == self._id else [self._event(self._parts)]

    def _event(self, parts: Mapping[str, str]) -> Event:
        return Event(self._id, NOW, json.dumps({"now": self._now, "parts": parts}))


def now_parts(overview: Overview, render: Callable[..., str]) -> tuple[datetime, Mapping[str, str]]:
    """Render the parts of *Now*; *render* makes a piece of a page of a template."""
    view = overview.now()
    context = {"view": view, "now": view.now, "chart": minutes_chart(view.coming_minutes)}
    return view.now, {part: render(f"now/{part}.html", **context) for part in PARTS}


def _steady(text: str) -> str:
    return _COUNTED_ON.sub(r"\1", text)


class OutputFeed:
    """Sends what an execution writes, line by line, and each state that it is seen in."""

    every = 1.0

    def __init__(self, records: RecordsPort, execution_id: int) -> None:
        self.is_over = False
        self._records, self._id = records, execution_id
        self._reading = Reading(records)
        self._told: tuple[State, int] | None = None
        # Of this feed alone: another one that follows may have other numbers for the same lines.
        self._nonce, self._sent, self._kept = uuid4().hex, 0, 0
        self._events = deque[Event]()

    def look(self) -> Sequence[Event]:
        # Before the output: what is read after the end was seen is all there is.
        execution = self._records.execution(self._id)
        if execution is None:
            raise NotFound(f"there is no execution {self._id}")
        running = execution.attempt if execution.state is State.RUNNING else None
        new: list[Event] = []
        for found in self._reading.new(self._id, running):
            match found:
                case Written(attempt=attempt, stream=stream, line=line):
                    said = {"attempt": attempt, "stream": stream, **attrs.asdict(line)}
                    new.append(self._event("line", said))
                case CutShort(attempt=attempt, as_of=as_of):
                    new.append(self._event("cut", {"attempt": attempt, "as_of": iso_moment(as_of)}))
        self.is_over = execution.state not in UNFINISHED
        told = execution.state, execution.attempt
        if told != self._told or self.is_over:
            moved = {"state": told[0].value, "attempt": told[1], "over": self.is_over}
            new.append(self._event("state", moved))
        self._told = told
        return new

    def after(self, id_: str | None) -> Sequence[Event]:
        """See `Feed`: one that listened to another feed begins anew."""
        nonce, _, number = (id_ or "").partition(".")
        if nonce == self._nonce and number.isdecimal():
            return [each for each in self._events if int(each.id.split(".")[1]) > int(number[:18])]
        return [Event(f"{self._nonce}.0", "anew", "{}"), *self._events]

    def keep(self, new: Sequence[Event]) -> None:
        self._events += new
        self._kept += sum(len(event.data) for event in new)
        while self._kept > MOST_KEPT:
            self._kept -= len(self._events.popleft().data)

    def _event(self, name: str, said: Mapping[str, Any]) -> Event:
        self._sent += 1
        return Event(f"{self._nonce}.{self._sent}", name, json.dumps(said))

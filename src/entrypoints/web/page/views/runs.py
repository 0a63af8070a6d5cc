"""*Executions*, *Timeline* and *Load*: what ran when, each run with its story, and what begins."""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Annotated, Final, Literal
from urllib.parse import urlencode

import attrs
from msgspec import Meta

from cronhare.application.administration.reading.days import MOST_ATTEMPTS
from cronhare.application.administration.reading.output import (
    CutShort,
    Following,
    Moved,
    Position,
    Written,
)
from cronhare.application.reports.overlaps import LaneBy
from cronhare.domain.execution import REPLAYABLE, UNFINISHED, State
from cronhare.domain.texts.moments import iso_moment

from ...api.executions import After, PageOfExecutions
from ...operations import Call, Reply, Resource, last_id
from ...reading import Id, Moment
from ..pages import Context, Done, acts, shows
from ..pictures import drawn, marks, strip
from ..times import in_zone

PATH: Final = "/ui/executions"

#: What can be asked of their state beside each of them, by the word in the address.
_GROUPS: Final = {"unfinished": UNFINISHED, "bad": REPLAYABLE}
_WORDS: Final = (*_GROUPS, *(state.value for state in State))

StateWord = Annotated[
    str, Meta(pattern=rf"^({'|'.join(_WORDS)})$", description=f"one of {', '.join(_WORDS)}")
]


@attrs.frozen(kw_only=True)
class ListedExecutions(PageOfExecutions):
    """Which executions are listed."""

    state: StateWord | None = None


@attrs.frozen(kw_only=True)
class WrittenAfter:
    """What was written after a position."""

    after: After | None = None


class Executions(Resource):
    """Executions, in a list and one by one."""

    @shows(PATH, "executions.html", empty={"found": (), "words": _WORDS})
    def list_executions(self, query: ListedExecutions) -> Reply[Context]:
        word = query.state
        states = () if word is None else _GROUPS.get(word) or (State(word),)
        found = self._container.queries().executions(query.filter(states))
        after = last_id(found, limit=query.limit)
        return Reply({"found": found, "words": _WORDS}, after=after)

    @shows(f"{PATH}/{{execution_id}}", "execution.html", live=2)
    def show_execution(self, execution_id: Id) -> Context:
        explanations = self._container.explanations()
        story = explanations.story_of(execution_id)
        is_over = story.execution.state not in UNFINISHED
        return {
            **self._written(execution_id, Position()),
            "story": story,
            "one": story.execution,
            "now": story.now,
            "strip": strip(story),
            "why": explanations.of_execution(execution_id),
            "failure_id": explanations.failure_of(story.execution),
            "unfinished": UNFINISHED,
            **({"live": 0} if is_over else {}),
        }

    @shows(f"{PATH}/{{execution_id}}/output", "execution/output.html")
    def show_output(self, execution_id: Id, query: WrittenAfter) -> Context:
        after = Position() if query.after is None else Position.parse(query.after)
        return {**self._written(execution_id, after), "now": None}

    def _written(self, execution_id: int, after: Position) -> Context:
        following = Following(self._container.records(), execution_id, after)
        shown, lines = after.attempt if any(after.lines) else 0, list[tuple[str, str]]()
        for each in following.look():
            if isinstance(each, Moved) or (isinstance(each, CutShort) and shown and not lines):
                continue  # the latter was told with the line before it
            if each.attempt != shown:
                lines.append(("attempt", f"attempt {each.attempt}"))
                shown = each.attempt
            match each:
                case Written(stream=stream, line=line):
                    if line.left_out:
                        lines.append(("gap", f"… {line.left_out} lines are kept no more"))
                    lines.append((stream, line.text))
                case CutShort(as_of=as_of):
                    lines.append(("gap", f"what came after {iso_moment(as_of)} was lost"))
        output = {"id": execution_id, "after": following.position, "is_over": following.is_over}
        return {"lines": lines, "output": output}

    @acts(f"{PATH}/{{execution_id}}/cancel")
    def cancel_execution(self, execution_id: Id, call: Call) -> Done:
        administrator = self._container.administrator()
        state = administrator.cancel(execution_id, actor=call.actor)
        said = f"Execution {execution_id} is {state}."
        if state is State.RUNNING:
            said = f"Execution {execution_id} was asked to end: its worker stops it."
        return Done(f"{PATH}/{execution_id}", said)


TIMELINE: Final = "/ui/timeline"
_LASTING: Final[Mapping[str, timedelta]] = {
    "24h": timedelta(days=1),
    "6h": timedelta(hours=6),
    "1h": timedelta(hours=1),
}


@attrs.frozen(kw_only=True)
class WhichWindow:
    """Which window of time, and by what its lanes are."""

    span: Literal["24h", "6h", "1h"] = "24h"
    by: LaneBy = LaneBy.SCHEDULE
    since: Moment | None = None


@attrs.frozen(kw_only=True)
class WhichDay:
    """Which day, by a moment in it."""

    day: Moment | None = None


class Days(Resource):
    """What ran in a window of time, and what begins in each minute of a day."""

    @shows(TIMELINE, "timeline.html")
    def show_timeline(self, query: WhichWindow, call: Call) -> Context:
        lasting, span = _LASTING[query.span], query.span
        since = (query.since or _next_quarter(call.now) - lasting).replace(microsecond=0)
        view = self._container.days().timeline(since, lasting, by=query.by)

        def address(**other: object) -> str:
            asked = {"span": span, "by": query.by.value, "since": iso_moment(since)} | other
            return f"{TIMELINE}?{urlencode({name: each for name, each in asked.items() if each})}"

        def begun(at: datetime) -> str:
            return iso_moment(at.replace(microsecond=0))

        return {
            "now": view.now,
            "view": view,
            "lanes": drawn(view),
            "marks": marks(view.since, lasting),
            "span": span,
            "spans": {word: address(span=word) for word in _LASTING},
            "others": {each.value: address(by=each.value) for each in LaneBy},
            "earlier": address(since=begun(since - lasting)),
            "later": address(since=begun(since + lasting)),
            "newest": address(since=""),
            "near": view.peak_at
            and address(span="1h", since=begun(view.peak_at - timedelta(minutes=30))),
            "most_attempts": MOST_ATTEMPTS,
            "window": {"since": begun(since), "until": begun(since + lasting)},
        }

    @shows("/ui/load", "load.html")
    def show_load(self, query: WhichDay, call: Call) -> Context:
        today, day = _midnight(call.now), _midnight(query.day or call.now)
        return {
            "now": call.now,
            "load": self._container.days().load(day),
            "day": day,
            "today": today,
            "before": _midnight(day - timedelta(hours=12)),
            "after": _midnight(day + timedelta(hours=36)),
        }


def _next_quarter(now: datetime) -> datetime:
    """Give the quarter of an hour that ends next: whoever looks meanwhile sees the same window."""
    begun = now.replace(minute=now.minute // 15 * 15, second=0, microsecond=0)
    return begun + timedelta(minutes=15)


def _midnight(moment: datetime) -> datetime:
    there = in_zone(moment)
    return datetime.combine(there, time(), there.tzinfo)

"""What an execution writes, shown whole, in parts, or followed while it runs."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, Protocol, Self, TypeAlias, TypeVar

import attrs

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.ports.records import Output, RecordsPort, Reported
from cronhare.ports.runner import Captured

from .lookup import find_execution

#: Stands for what is missing within a line.
MISSING = "… "


@attrs.frozen(kw_only=True)
class NewLine:
    """A line without its end; *is_ended* is false of a last one that has none.

    *left_out* lines before it were written, and are kept no more.
    """

    number: int
    text: str
    left_out: int = 0
    is_ended: bool = True


@attrs.define
class ShownStream:
    """How far a stream was shown: *lines* whole ones."""

    lines: int = 0

    def new(self, now: Captured, *, is_over: bool) -> Iterator[NewLine]:
        r"""Give the lines that are new, in order; an unended one only if the stream *is_over*.

        >>> shown = ShownStream()
        >>> [line.text for line in shown.new(Captured(head="a\nb", lines=1), is_over=False)]
        ['a']
        >>> [line.text for line in shown.new(Captured(head="a\nbc", lines=1), is_over=True)]
        ['bc']
        """
        known = list(_known(now))
        count, rest = known.pop()
        if count < self.lines:  # the attempt was begun anew
            self.lines = 0
        for number, text in known:
            if number > self.lines:
                yield self._show(number, text)
        if is_over and rest and count > self.lines:
            yield self._show(count, rest, is_ended=False)

    def _show(self, number: int, text: str, *, is_ended: bool = True) -> NewLine:
        left_out, self.lines = number - self.lines - 1, number
        return NewLine(number=number, text=text, left_out=left_out, is_ended=is_ended)


def _known(now: Captured) -> Iterator[tuple[int, str]]:
    """Number the lines that are kept; the last one has no end, and may be empty."""
    first, last = now.head.split("\n"), now.tail.split("\n")
    kept = len(first) + len(last) - 2
    count = kept if now.lines is None else now.lines  # of a short text nobody has counted
    if count <= kept:
        gap = MISSING if _may_have_gap(now) else ""
        joined = [*first[:-1], f"{first[-1]}{gap}{last[0]}", *last[1:]]
        yield from enumerate(joined, start=1)
        return
    yield from enumerate(first[:-1], start=1)
    # The first piece of the tail is the end of a line whose beginning may be missing.
    yield from enumerate([f"{MISSING}{last[0]}", *last[1:]], start=count - len(last) + 2)


def _may_have_gap(now: Captured) -> bool:
    """Tell whether something may be missing between both ends.

    A byte that is no text was replaced by a sign of three.
    """
    replaced = (now.head + now.tail).count("\N{REPLACEMENT CHARACTER}")
    return bool(now.tail) and now.bytes > now.kept - 2 * replaced


STREAMS: Final = ("stdout", "stderr")
_WRITTEN: Final = re.compile(r"(\d{1,9})-(\d{1,18})-(\d{1,18})", re.ASCII)


@attrs.frozen
class Position:
    """How far was shown: the attempt, and the lines of each of its streams."""

    attempt: int = 1
    lines: tuple[int, int] = (0, 0)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` has written.

        Raises:
            ValueError: it is no position.
        """
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise ValueError("write what the last answer gave, such as 1-20-0")
        attempt, *lines = map(int, found.groups())
        return cls(attempt, (lines[0], lines[1]))

    def __str__(self) -> str:
        return "-".join(map(str, (self.attempt, *self.lines)))


@attrs.frozen(kw_only=True)
class OutputPage:
    """What was new, line by line; more *may_come* after this *position*."""

    lines: tuple[str, ...]
    position: Position
    may_come: bool
    state: State


#: Seconds between two looks.
FOLLOW_EVERY: Final = 1.0


@attrs.frozen(kw_only=True)
class Written:
    """A new line of a stream of an attempt."""

    attempt: int
    stream: str
    line: NewLine


@attrs.frozen(kw_only=True)
class CutShort:
    """An attempt was lost: what it wrote after *as_of* was never kept."""

    attempt: int
    as_of: datetime


@attrs.frozen
class Moved:
    """The execution is in another state, or waits for another attempt."""

    execution: Execution


Followed: TypeAlias = Written | CutShort | Moved


def follow(
    records: RecordsPort, execution_id: int, *, pause: Callable[[float], None]
) -> Iterator[Followed]:
    """Yield what is new of an execution, again and again until it ends; see `Following`.

    *pause* waits for so many seconds.
    """
    following = Following(records, execution_id)
    while True:
        yield from following.look()
        if following.is_over:
            return
        pause(FOLLOW_EVERY)


@attrs.define
class Following:
    """Looks at an execution again and again, until it *is over*; its output after a *position*.

    Each state that it is seen in is told: the start of an attempt before what that has written, and
    its end after it. What was read of its output is read again only if there is more.
    """

    _records: RecordsPort
    _execution_id: int
    position: Position = Position()
    _streams: Sequence[str] = STREAMS
    is_over: bool = attrs.field(init=False, default=False)
    _told: tuple[State, int] | None = attrs.field(init=False, default=None)
    _seen: dict[int, tuple[object, ...]] = attrs.field(
        init=False, factory=dict[int, tuple[object, ...]]
    )
    _shown: dict[tuple[int, str], ShownStream] = attrs.field(
        init=False, factory=dict[tuple[int, str], ShownStream]
    )
    _first: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._first = self.position.attempt
        for name, lines in zip(STREAMS, self.position.lines, strict=True):
            self._shown[self._first, name] = ShownStream(lines)

    def look(self) -> Iterator[Followed]:
        """Give what is new."""
        # Before the output: what is read after the end was seen is all there is.
        execution = find_execution(self._records, self._execution_id)
        running = execution.attempt if execution.state is State.RUNNING else None
        self.is_over, now = execution.state not in UNFINISHED, (execution.state, execution.attempt)
        comes_first = running is not None or (self._told is None and not self.is_over)
        if self._told != now and comes_first:
            yield Moved(execution)
        yield from self._written(running)
        if self._told != now and not comes_first:
            yield Moved(execution)
        self._told = now

    def _written(self, running: int | None) -> Iterator[Followed]:
        marks = {
            reported.attempt: _mark(reported, is_over=reported.attempt != running)
            for reported in self._records.reported([self._execution_id])
            if reported.attempt >= self._first
        }
        changed = {attempt for attempt, mark in marks.items() if self._seen.get(attempt) != mark}
        if changed:
            for output in self._records.output(self._execution_id, since=min(changed)):
                if output.attempt in changed:
                    yield from self._of(output, is_over=output.attempt != running)
        self._seen = marks

    def _of(self, output: Output, *, is_over: bool) -> Iterator[Followed]:
        for name in self._streams:
            captured = output.stdout if name == "stdout" else output.stderr
            shown = self._shown.setdefault((output.attempt, name), ShownStream())
            for line in shown.new(captured, is_over=is_over):
                self._advance(output.attempt)
                yield Written(attempt=output.attempt, stream=name, line=line)
        if is_over and output.as_of is not None:
            yield CutShort(attempt=output.attempt, as_of=output.as_of)

    def _advance(self, attempt: int) -> None:
        if attempt >= self.position.attempt:
            out, err = (self._shown.get((attempt, name), ShownStream()) for name in STREAMS)
            self.position = Position(attempt, (out.lines, err.lines))


def _mark(reported: Reported, *, is_over: bool) -> tuple[object, ...]:
    return reported.bytes, reported.as_of, is_over


def output_page(
    records: RecordsPort, execution_id: int, *, after: Position, stream: str | None = None
) -> OutputPage:
    """Show what was written after a position, of both streams or of one.

    Of each attempt what it wrote on stdout comes first. While it runs, whole lines alone.
    """
    streams = STREAMS if stream is None else (stream,)
    following, lines = Following(records, execution_id, after, streams), list[str]()
    for each in following.look():
        if isinstance(each, Written):
            if each.line.left_out:
                lines.append(f"[{each.line.left_out:,} lines were not kept]\n")
            lines.append(f"{each.line.text}\n" if each.line.is_ended else each.line.text)
        elif isinstance(each, Moved):
            state = each.execution.state
    return OutputPage(
        lines=tuple(lines),
        position=following.position,
        may_come=not following.is_over,
        state=state,
    )


class Numbered(Protocol):
    """A row that is known again by its number."""

    @property
    def id(self) -> int: ...


Row = TypeVar("Row", bound=Numbered)


def watch(
    look: Callable[[], Sequence[Row]],
    *,
    stand: Callable[[Row], object],
    pause: Callable[[float], None],
) -> Iterator[Sequence[Row]]:
    """Yield what a *look*, newest first, finds, oldest first; then what is new or has moved on.

    A row has moved on when its *stand* is another. It never ends; *pause* waits for so many
    seconds.
    """
    seen: dict[int, object] = {}
    while True:
        found = look()
        moved = [row for row in found if row.id not in seen or seen[row.id] != stand(row)]
        seen = {row.id: stand(row) for row in found}
        yield moved[::-1]
        pause(FOLLOW_EVERY)

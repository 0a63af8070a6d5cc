"""Following what an execution writes, and lists, out of the ledger, whichever process works."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeAlias, TypeVar

import attrs

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.ports.records import Output, RecordsPort, Reported

from .lookup import NotFound
from .new_lines import NewLine, ShownStream

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
    """Yield what the attempts have written, then look again and again until the execution ends.

    Each state that it is seen in is told: the start of an attempt before what that has written, and
    its end after it. *pause* waits for so many seconds.

    Raises:
        NotFound: there is no such execution, or no more.
    """
    reading = Reading(records)
    told: tuple[State, int] | None = None
    while True:
        # Before the output: what is read after the end was seen is all there is.
        execution = records.execution(execution_id)
        if execution is None:
            raise NotFound(f"there is no execution {execution_id}")
        running = execution.attempt if execution.state is State.RUNNING else None
        is_over, now = execution.state not in UNFINISHED, (execution.state, execution.attempt)
        comes_first = running is not None or (told is None and not is_over)
        if told != now and comes_first:
            yield Moved(execution)
        yield from reading.new(execution_id, running)
        if told != now and not comes_first:
            yield Moved(execution)
        if is_over:
            return
        told = now
        pause(FOLLOW_EVERY)


@attrs.define
class Reading:
    """What was read so far of an execution's output: it is read again only if there is more."""

    _records: RecordsPort
    _seen: dict[int, tuple[object, ...]] = attrs.field(
        init=False, factory=dict[int, tuple[object, ...]]
    )
    _shown: dict[tuple[int, str], ShownStream] = attrs.field(
        init=False, factory=dict[tuple[int, str], ShownStream]
    )

    def new(self, execution_id: int, running: int | None) -> Iterator[Followed]:
        """Give what is new, of the attempt that is *running* whole lines alone."""
        changed = set[int]()
        for reported in self._records.reported([execution_id]):
            mark = _mark(reported, is_over=reported.attempt != running)
            if self._seen.get(reported.attempt) != mark:
                self._seen[reported.attempt] = mark
                changed.add(reported.attempt)
        if changed:
            for output in self._records.output(execution_id, since=min(changed)):
                if output.attempt in changed:
                    yield from self._of(output, is_over=output.attempt != running)

    def _of(self, output: Output, *, is_over: bool) -> Iterator[Followed]:
        for name, captured in (("stdout", output.stdout), ("stderr", output.stderr)):
            shown = self._shown.setdefault((output.attempt, name), ShownStream())
            for line in shown.new(captured, is_over=is_over):
                yield Written(attempt=output.attempt, stream=name, line=line)
        if is_over and output.as_of is not None:
            yield CutShort(attempt=output.attempt, as_of=output.as_of)


def _mark(reported: Reported, *, is_over: bool) -> tuple[object, ...]:
    return reported.bytes, reported.as_of, is_over


class Numbered(Protocol):
    """A row that is known again by its number."""

    @property
    def id(self) -> int:
        """The number."""
        ...


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

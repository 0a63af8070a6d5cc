"""What an execution has written since somebody looked last: output in parts, to be followed."""

import re
from collections.abc import Iterator
from typing import Final, Self

import attrs

from cronhare.domain.execution import UNFINISHED, State
from cronhare.ports.records import Output, RecordsPort

from .lookup import NotFound
from .new_lines import NewLine, ShownStream

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


@attrs.frozen
class OutputPages:
    """Each method may raise `LedgerUnavailable`."""

    _records: RecordsPort

    def page(self, execution_id: int, *, after: Position, stream: str | None = None) -> OutputPage:
        """Show what was written after a position, of both streams or of one.

        Of each attempt what it wrote on stdout comes first. While it runs, whole lines alone.

        Raises:
            NotFound: there is no such execution.
        """
        # Before the output: what is read after the end was seen is all there is.
        execution = self._records.execution(execution_id)
        if execution is None:
            raise NotFound(f"there is no execution {execution_id}")
        running = execution.attempt if execution.state is State.RUNNING else None
        lines, position = list[str](), after
        for output in self._records.output(execution_id, since=after.attempt):
            before = position.lines if output.attempt == position.attempt else (0, 0)
            shown = {name: ShownStream(seen) for name, seen in zip(STREAMS, before, strict=True)}
            for name in STREAMS if stream is None else (stream,):
                lines += _new(output, name, shown[name], is_over=output.attempt != running)
            position = Position(output.attempt, (shown["stdout"].lines, shown["stderr"].lines))
        return OutputPage(
            lines=tuple(lines),
            position=position,
            may_come=execution.state in UNFINISHED,
            state=execution.state,
        )


def _new(output: Output, name: str, shown: ShownStream, *, is_over: bool) -> Iterator[str]:
    captured = output.stdout if name == "stdout" else output.stderr
    for line in shown.new(captured, is_over=is_over):
        if line.left_out:
            yield f"[{line.left_out:,} lines were not kept]\n"
        yield _written(line)


def _written(line: NewLine) -> str:
    return f"{line.text}\n" if line.is_ended else line.text

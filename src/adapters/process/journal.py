"""What an attempt says, on its way to the log."""

import logging
from collections.abc import Callable, Iterable, Iterator

from cronhare.domain.texts.printable import printable
from cronhare.ports.runner import Invocation

from .budget import LINE, PER_SECOND, LogBudget
from .capture import Capture
from .lines import LOG_LINE_LIMIT, Line, LineSplitter, loggable
from .messages import LONGEST_MESSAGE, BrokenMessage, Failed, Finished, Progress, read_message

_logger = logging.getLogger("cronhare.task")

#: A task may break any number of messages; the log is not there to count them.
_COMPLAINTS = 10
#: A task that broke so many is not listened to any more; how it ends is seen without its word.
MOST_BROKEN = 1000


class Journal:
    """Writes log lines in the name of a child: the record's `child` is `Report:Name:pid`."""

    def __init__(self, invocation: Invocation, clock: Callable[[], float]) -> None:
        """*clock* gives monotonic seconds: the log takes only so many lines in a time."""
        self._label = invocation.task.label
        self._place = {
            "execution": invocation.execution_id,
            "attempt": invocation.attempt,
            "schedule": invocation.schedule_name,
        }
        self._child = self._label
        self._unsaid: str | None = None
        self._clock = clock
        self._budget = LogBudget()
        self._left_out = 0
        self.wants_lines = _logger.isEnabledFor(logging.INFO)

    def began_as(self, pid: int, text: str) -> None:
        """Write in the name of this process from now on; *text* before all else that it says.

        Nobody knows yet whether it becomes its command: see `never_began`.
        """
        self._child = f"{self._label}:{pid}"
        self._unsaid = text

    def has_begun(self) -> None:
        """Write what the beginning was to be told with, if that is still to be written."""
        if self._unsaid is not None:
            text, self._unsaid = self._unsaid, None
            self._log(logging.INFO, text)

    def never_began(self) -> None:
        """Forget the beginning: the command could not be started."""
        self._unsaid = None

    def info(self, text: str) -> None:
        """Write a line of the child's life."""
        self.has_begun()
        self._log(logging.INFO, text)

    def warn(self, text: str) -> None:
        """Write a line about something that went wrong."""
        self.has_begun()
        self._log(logging.WARNING, text)

    def _log(self, level: int, text: str) -> None:
        _logger.log(level, "%s", text, extra={"child": self._child, "context": self._place})

    @property
    def is_open(self) -> bool:
        """Whether a line of the child's own may be written now."""
        return self._budget.is_open(self._clock())

    def line(self, line: Line) -> None:
        """Write a line of the child's own, unless it has written too much."""
        text = loggable(line)
        if not self._budget.take(len(printable(text)) + LINE, now=self._clock()):
            self.leave_out(1)
            return
        self.tell_left_out()
        self.info(text)

    def leave_out(self, lines: int) -> None:
        """Count lines that are not written."""
        self._left_out += lines

    def tell_left_out(self) -> None:
        """Say how many lines were not written since it was said last, if any were."""
        if self._left_out:
            count, self._left_out = self._left_out, 0
            self.warn(f"{count} lines not logged: an attempt may log {PER_SECOND // 1024} KiB/s")


class Output:
    """One of a task's two streams: kept in part, logged line by line."""

    def __init__(self, journal: Journal) -> None:
        self.capture = Capture()
        self._journal = journal
        self._lines = LineSplitter(LOG_LINE_LIMIT)

    def feed(self, chunk: bytes) -> None:
        """Take in what the task wrote."""
        self.capture.feed(chunk)
        if not self._journal.wants_lines:
            return
        if not self._journal.is_open:
            self._journal.leave_out(self._lines.skip(chunk))
            return
        for line in self._lines.feed(chunk):
            self._journal.line(line)

    def end(self) -> None:
        """Log the last line, if it has no end, and how many were left out."""
        for line in self._lines.rest():
            self._journal.line(line)
        self._journal.tell_left_out()


class Inbox:
    """The task's IPC messages. What is not one of them is complained of and skipped.

    Whatever a task writes there is no more than a complaint: nothing is raised.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lines = LineSplitter(LONGEST_MESSAGE)
        self._complaints = 0

    def feed(self, chunk: bytes) -> list[Finished | Failed | Progress]:
        """Take in what the task wrote; give the messages that are complete."""
        return list(self._read(self._lines.feed(chunk)))

    def end(self) -> list[Finished | Failed | Progress]:
        """Give a last message that has no line's end."""
        return list(self._read(self._lines.rest()))

    def _read(self, lines: Iterable[Line]) -> Iterator[Finished | Failed | Progress]:
        for line in lines:
            if self._complaints >= MOST_BROKEN:
                continue
            try:
                yield read_message(line)
            except BrokenMessage as error:
                self._complain(str(error))

    def _complain(self, why: str) -> None:
        self._complaints += 1
        if self._complaints == MOST_BROKEN:
            self._journal.warn(f"{MOST_BROKEN} broken IPC messages: no other is read")
        if self._complaints <= _COMPLAINTS:
            last = " (no more of these are logged)" if self._complaints == _COMPLAINTS else ""
            self._journal.warn(f"Ignored an IPC message: {why}{last}")

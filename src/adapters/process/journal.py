"""What an attempt says, on its way to the log."""

import logging
from collections.abc import Iterable, Iterator

from cronhare.ports.runner import Invocation

from .capture import Capture
from .lines import LOG_LINE_LIMIT, Line, LineSplitter, loggable
from .messages import LONGEST_MESSAGE, BrokenMessage, Failed, Finished, Progress, read_message

_logger = logging.getLogger("cronhare.task")

#: A task may break any number of messages; the log is not there to count them.
_COMPLAINTS = 10


class Journal:
    """Writes log lines in the name of a child (S1): the record's `child` is `Report:Name:pid`."""

    def __init__(self, invocation: Invocation) -> None:
        self._label = invocation.task.label
        self._place = {
            "execution": invocation.execution_id,
            "attempt": invocation.attempt,
            "schedule": invocation.schedule_name,
        }
        self._child = self._label
        self._unsaid: str | None = None
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
        """Write a line of the child, or of its life."""
        self.has_begun()
        self._log(logging.INFO, text)

    def warn(self, text: str) -> None:
        """Write a line about something that went wrong."""
        self.has_begun()
        self._log(logging.WARNING, text)

    def _log(self, level: int, text: str) -> None:
        _logger.log(level, "%s", text, extra={"child": self._child, "context": self._place})


class Output:
    """One of a task's two streams: kept in part, logged line by line."""

    def __init__(self, journal: Journal) -> None:
        self.capture = Capture()
        self._journal = journal
        self._lines = LineSplitter(LOG_LINE_LIMIT)

    def feed(self, chunk: bytes) -> None:
        """Take in what the task wrote."""
        self.capture.feed(chunk)
        if self._journal.wants_lines:
            for line in self._lines.feed(chunk):
                self._journal.info(loggable(line))

    def end(self) -> None:
        """Log the last line, if it has no end."""
        for line in self._lines.rest():
            self._journal.info(loggable(line))


class Inbox:
    """The task's IPC messages. What is not one of them is complained of and skipped."""

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
            try:
                yield read_message(line)
            except BrokenMessage as error:
                self._complain(str(error))

    def _complain(self, why: str) -> None:
        self._complaints += 1
        if self._complaints <= _COMPLAINTS:
            last = " (no more of these are logged)" if self._complaints == _COMPLAINTS else ""
            self._journal.warn(f"Ignored an IPC message: {why}{last}")

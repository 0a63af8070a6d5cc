"""An attempt's log lines: its life, its output, and complaints about its IPC messages."""

import logging
from collections.abc import Callable, Iterable, Iterator

from cronhare.domain.texts.listing import counted
from cronhare.domain.texts.printable import printable
from cronhare.ports.runner import Invocation

from .capture import LOG_LINE_LIMIT, Capture, Line, LineSplitter, loggable
from .ipc_messages import LONGEST_MESSAGE, BrokenMessage, Message, RefusedResult, read_message

_logger = logging.getLogger("cronhare.task")

#: Broken messages that are logged; a task may send any number.
_MOST_WARNINGS = 10
#: After so many broken messages no other is read: the task's end is seen without them.
MOST_BROKEN = 1000

#: Bytes of log that an attempt may write at once, and in each second after that.
BURST, PER_SECOND = 128 * 1024, 16 * 1024
#: Bytes that a line costs beside its text, for its prefix in either form of the log.
LINE = 256


class AttemptLog:
    """Writes log lines in the name of a child: the record's `child` is `Report:Name:pid`."""

    def __init__(self, invocation: Invocation, clock: Callable[[], float]) -> None:
        """*clock* gives monotonic seconds, for the rate limit."""
        self._label = invocation.task.label
        place = {
            "execution": invocation.execution_id,
            "attempt": invocation.attempt,
            "schedule": invocation.schedule_name,
        }
        # Who is told of what is no run's, such as a test, has no place to name.
        self._place = {name: value for name, value in place.items() if value}
        self._child = self._label
        self._first_line: str | None = None
        self._clock = clock
        self._rate = LogRateLimit()
        self._omitted = 0
        self.wants_lines = _logger.isEnabledFor(logging.INFO)

    def hold_first_line(self, pid: int, text: str) -> None:
        """Log as this process from now on; *text* before any other line.

        It is held back as the command may fail to start: see `drop_first_line`.
        """
        self._child = f"{self._label}:{pid}"
        self._first_line = text

    def log_first_line(self) -> None:
        """Write the first line, if it is still held back."""
        if self._first_line is not None:
            text, self._first_line = self._first_line, None
            self._write(logging.INFO, text)

    def drop_first_line(self) -> None:
        """Forget the first line: the command could not be started."""
        self._first_line = None

    def info(self, text: str) -> None:
        """Write a line about the child."""
        self.log_first_line()
        self._write(logging.INFO, text)

    def warn(self, text: str) -> None:
        """Write a line about something that went wrong."""
        self.log_first_line()
        self._write(logging.WARNING, text)

    def warn_of_left_running(self, count: int) -> None:
        """Say what it left in the background, which a success would hide."""
        text = f"Killed {counted(count, 'process')} that it left running when it ended"
        said = {"child": self._child, "context": self._place}
        _logger.warning("%s", text, extra={"action": "attempt.left-running", **said})

    def _write(self, level: int, text: str) -> None:
        _logger.log(level, "%s", text, extra={"child": self._child, "context": self._place})

    @property
    def is_open(self) -> bool:
        """Whether the rate limit lets a line of output through now."""
        return self._rate.is_open(self._clock())

    def line(self, line: Line) -> None:
        """Write a line of output, unless the rate limit omits it."""
        text = loggable(line)
        if not self._rate.take(len(printable(text)) + LINE, now=self._clock()):
            self.omit(1)
            return
        self.report_omitted()
        self.info(text)

    def omit(self, lines: int) -> None:
        """Count lines of output that are not logged."""
        self._omitted += lines

    def report_omitted(self) -> None:
        """Log how many lines were omitted since the last report, if any were."""
        if self._omitted:
            count, self._omitted = self._omitted, 0
            self.warn(f"{count} lines not logged: an attempt may log {PER_SECOND // 1024} KiB/s")


class Output:
    """One of a task's two output streams: captured, and logged line by line."""

    def __init__(self, log: AttemptLog) -> None:
        self.capture = Capture()
        self._log = log
        self._lines = LineSplitter(LOG_LINE_LIMIT)

    def feed(self, chunk: bytes) -> None:
        """Take in what the task wrote."""
        self.capture.feed(chunk)
        if not self._log.wants_lines:
            return
        if not self._log.is_open:
            self._log.omit(self._lines.skip(chunk))
            return
        for line in self._lines.feed(chunk):
            self._log.line(line)

    def end(self) -> None:
        """Log an unended last line, and how many lines were omitted."""
        for line in self._lines.rest():
            self._log.line(line)
        self._log.report_omitted()


class MessageReader:
    """Reads the task's IPC messages. A broken one is logged and skipped: nothing is raised.

    So is a result that cannot be kept, but it is passed on.
    """

    def __init__(self, log: AttemptLog) -> None:
        self._log = log
        self._lines = LineSplitter(LONGEST_MESSAGE)
        self._broken = 0

    def feed(self, chunk: bytes) -> list[Message]:
        """Take in what the task wrote; return the messages that are complete."""
        return list(self._read(self._lines.feed(chunk)))

    def end(self) -> list[Message]:
        """Return a last message that has no line end."""
        return list(self._read(self._lines.rest()))

    def _read(self, lines: Iterable[Line]) -> Iterator[Message]:
        for line in lines:
            if self._broken >= MOST_BROKEN:
                continue
            try:
                message = read_message(line)
            except BrokenMessage as error:
                self._warn(f"Ignored an IPC message: {error}")
                continue
            if isinstance(message, RefusedResult):
                self._warn(f"The result is not kept: {message.why}")
            yield message

    def _warn(self, why: str) -> None:
        self._broken += 1
        if self._broken == MOST_BROKEN:
            self._log.warn(f"{MOST_BROKEN} broken IPC messages: no other is read")
        if self._broken <= _MOST_WARNINGS:
            last = " (no more of these are logged)" if self._broken == _MOST_WARNINGS else ""
            self._log.warn(f"{why}{last}")


class LogRateLimit:
    """How much an attempt may log: a bucket of bytes, once empty closed for a second's worth.

    So endless output costs the log one burst, then a second's worth at a time, with one line
    between that counts what was omitted.

    >>> rate = LogRateLimit()
    >>> rate.is_open(0.0), rate.take(BURST, now=0.0), rate.take(1, now=0.0)
    (True, True, False)
    >>> rate.is_open(0.5), rate.is_open(1.2)
    (False, True)
    """

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at = 0.0
        self._closed = False

    def is_open(self, now: float) -> bool:
        """Whether a line may be tried at *now*, a monotonic time in seconds."""
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._closed and self._left >= PER_SECOND:
            self._closed = False
        return not self._closed

    def take(self, size: int, *, now: float) -> bool:
        """Take *size* bytes for a line; False if it may not be written."""
        if not self.is_open(now):
            return False
        self._closed = self._left < size
        if not self._closed:
            self._left -= size
        return not self._closed

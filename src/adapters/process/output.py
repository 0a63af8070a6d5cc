"""What a task writes: read from its pipes, kept at both ends, and logged line by line."""

import asyncio
import codecs
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from cronhare.domain.texts.printable import printable
from cronhare.domain.texts.words import counted
from cronhare.ports.runner import Captured, Invocation

#: Bytes read at most in a turn of the loop: as much as a pipe holds by default.
CHUNK = 64 * 1024
#: A pipe that is readable again within `_REST` seconds is not read for as long, or for `_SHARE`
#: times what the last read took, if that is longer. So endless output takes a small part of the
#: loop, however costly it is to handle, and its writer waits before a full pipe.
_REST = 0.002
_SHARE = 20
#: Bytes of the largest pipe that Linux lets a user make: no more can be left in one.
_LARGEST_PIPE = 1024 * 1024


class Pipe:
    """A pipe from a task to *sink*. The end at *writer* is for the task: we do not close it."""

    def __init__(self, sink: Callable[[bytes], None], *, chunk: int = CHUNK) -> None:
        self._sink = sink
        self._chunk = chunk
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._read_at = 0.0

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass on output as it comes. Safe to repeat, and after `close`."""
        if self._loop is None and self._rest is None and self._reader >= 0:
            self._loop = loop
            loop.add_reader(self._reader, self._on_readable, loop)

    def drain(self) -> None:
        """Pass on what the pipe still holds, and do not wait for other processes that write."""
        left = _LARGEST_PIPE
        while left > 0 and (got := self._read()):
            left -= got

    def close(self) -> None:
        self._stop_listening()
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1

    def _on_readable(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        if self._read() and now - self._read_at < _REST:
            self._stop_listening()
            rest = max(_REST, (loop.time() - now) * _SHARE)
            self._rest = loop.call_later(rest, self._listen_again, loop)
        self._read_at = loop.time()

    def _listen_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._rest, self._read_at = None, loop.time()
        self.listen(loop)

    def _read(self) -> int:
        try:
            chunk = os.read(self._reader, self._chunk)
        except BlockingIOError:
            return 0
        if chunk:
            self._sink(chunk)
        else:
            self._stop_listening()
        return len(chunk)

    def _stop_listening(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._reader)
            self._loop = None


class LentPipe(Pipe):
    """A pipe from a child that is used again: each run of it lends it, and then closes it.

    It is listened to if *may_listen* says so then.
    """

    def __init__(self, may_listen: Callable[[], bool]) -> None:
        super().__init__(lambda _: None)
        self._may_listen = may_listen

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._may_listen():
            super().listen(loop)

    def lend(self, sink: Callable[[bytes], None]) -> None:
        self._sink = sink

    def close(self) -> None:
        """Listen no longer. What comes meanwhile is the next run's."""
        self._stop_listening()
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def end(self) -> None:
        super().close()


KEPT = 64 * 1024
#: Bytes of a line in the log; the capture keeps more.
LOG_LINE_LIMIT = 4 * 1024

#: Decodes UTF-8, and keeps a character that is cut off at the end to itself.
_decoder = codecs.getincrementaldecoder("utf-8")
#: What follows the first byte of a character, of which there are three at most.
_CONTINUATION = bytes(range(0x80, 0xC0))


_NOTHING = Captured(lines=0)


class Capture:
    """Keeps the first and the last *kept* bytes of what it is fed, and counts them all.

    >>> capture = Capture(kept=4)
    >>> for chunk in (b"ab", b"cdefg", b"hijkl"):
    ...     capture.feed(chunk)
    >>> capture.result()
    Captured(head='abcd', tail='ijkl', bytes=12)
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._head = bytearray()
        self._tail = bytearray()
        self.bytes = 0
        self.lines = 0

    def feed(self, chunk: bytes) -> None:
        self.bytes += len(chunk)
        self.lines += chunk.count(b"\n")
        room = self._kept - len(self._head)
        self._head += chunk[:room]
        if len(chunk) > room:
            self._tail += chunk[room:]
            # Cut at twice the size only, so that each byte is moved once, not once per chunk.
            if len(self._tail) > 2 * self._kept:
                del self._tail[: -self._kept]

    def result(self) -> Captured:
        """What was kept, as text. Bytes that are not UTF-8 are replaced, cut characters dropped."""
        if not self.bytes:  # as of most
            return _NOTHING
        decoder, tail = _decoder("replace"), bytes(self._tail[-self._kept :])
        head = decoder.decode(self._head)
        if self.bytes > 2 * self._kept:
            tail = tail[:3].lstrip(_CONTINUATION) + tail[3:]
        elif tail:  # it follows at once: the character that was cut is whole there
            tail = decoder.getstate()[0] + tail
        return Captured(head=head, tail=_text(tail), bytes=self.bytes, lines=self.lines)

    def last_lines(self, *, count: int, limit: int) -> str:
        end = bytes((self._head + self._tail)[-limit:])
        return "\n".join(_text(end).rstrip().splitlines()[-count:])


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


class Line(NamedTuple):
    """A line without its end. *cut* if it was longer than the limit."""

    data: bytes
    cut: bool = False


class LineSplitter:
    r"""Cuts chunks into lines; one that grows beyond *limit* bytes is cut there, and given at once.

    >>> splitter = LineSplitter(limit=4)
    >>> [*splitter.feed(b"one\ntwo"), *splitter.feed(b" and three\nfour"), *splitter.rest()]
    [Line(data=b'one', cut=False), Line(data=b'two ', cut=True), Line(data=b'four', cut=False)]
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> Iterator[Line]:
        *ended, last = chunk.split(b"\n")
        for piece in ended:
            yield from self._grow(piece)
            yield from self._end()
        yield from self._grow(last)

    def skip(self, chunk: bytes) -> int:
        r"""Skip lines unread, which costs next to nothing; return how many.

        >>> splitter = LineSplitter(limit=4)
        >>> splitter.skip(b"a\nb\nc"), splitter.skip(b"d\ne\n"), list(splitter.feed(b"f\n"))
        (3, 1, [Line(data=b'f', cut=False)])
        """
        is_counted, self._skipping = self._skipping, not chunk.endswith(b"\n")
        self._begun.clear()
        return chunk.count(b"\n") + self._skipping - is_counted

    def rest(self) -> Iterator[Line]:
        if self._begun:
            yield from self._end()

    def _grow(self, piece: bytes) -> Iterator[Line]:
        if self._skipping:
            return
        self._begun += piece
        if len(self._begun) > self._limit:
            yield Line(bytes(self._begun[: self._limit]), cut=True)
            self._begun.clear()
            self._skipping = True

    def _end(self) -> Iterator[Line]:
        if not self._skipping:
            yield Line(bytes(self._begun))
        self._begun.clear()
        self._skipping = False


def loggable(line: Line) -> str:
    r"""The text of a line, unescaped: the log escapes what could harm it or a terminal.

    >>> loggable(Line(b"\x1b[31mred\tsea\r"))
    '\x1b[31mred\tsea'
    """
    if not line.cut:
        return _text(line.data.removesuffix(b"\r"))
    whole = _decoder("replace").decode(line.data)
    return f"{whole} … [line cut at {LOG_LINE_LIMIT // 1024} KiB]"


_logger = logging.getLogger("cronhare.task")

#: Bytes of log that an attempt may write at once, and in each second after that.
BURST, PER_SECOND = 128 * 1024, 16 * 1024
#: Bytes that a line costs beside its text, for its prefix in either form of the log.
LINE = 256


class AttemptLog:
    """Writes log lines in the name of a child: the record's `child` is `Report:Name:pid`.

    What an attempt may log of its output is a bucket of bytes, once empty closed for a second's
    worth. So endless output costs the log one burst, then a second's worth at a time, with one line
    between that counts what was omitted.
    """

    def __init__(self, invocation: Invocation | None, clock: Callable[[], float]) -> None:
        """*clock* gives monotonic seconds. Without an invocation it is a child of many runs."""
        self._invocation = invocation
        self._pid = ""
        self._extra: dict[str, object] = {}
        self._clock = clock
        self._left = float(BURST)
        self._filled_at = clock()
        self._closed = False
        self._omitted = 0
        self.wants_lines = _logger.isEnabledFor(logging.INFO)

    def spawned(self, pid: int) -> None:
        self._pid, self._extra = f":{pid}", {}
        self.info("Process spawned (instant mode)")

    def info(self, text: str) -> None:
        self._write(logging.INFO, text, {})

    def warning(self, text: str, extra: Mapping[str, object] | None = None) -> None:
        self._write(logging.WARNING, text, extra or {})

    def warn_of_left_running(self, count: int) -> None:
        """Say what it left in the background, which a success would hide."""
        text = f"Killed {counted(count, 'process')} that it left running when it ended"
        self.warning(text, extra={"action": "attempt.left-running"})

    def _write(self, level: int, text: str, extra: Mapping[str, object]) -> None:
        if _logger.isEnabledFor(level):
            self._extra = self._extra or self._named()
            _logger.log(level, "%s", text, extra={**self._extra, **extra})

    def _named(self) -> dict[str, object]:
        invocation = self._invocation
        if invocation is None:
            return {"child": f"App{self._pid}", "context": {}}
        place = {
            "execution": invocation.execution_id,
            "attempt": invocation.attempt,
            "schedule": invocation.schedule_name,
        }
        # Who is told of what is no run's, such as a test, has no place to name.
        context = {name: value for name, value in place.items() if value}
        return {"child": f"{invocation.task.label}{self._pid}", "context": context}

    @property
    def is_open(self) -> bool:
        """Whether a line of output may be logged now, if it is short enough."""
        now = self._clock()
        self._left = min(BURST, self._left + (now - self._filled_at) * PER_SECOND)
        self._filled_at = now
        if self._closed and self._left >= PER_SECOND:
            self._closed = False
        return not self._closed

    def line(self, line: Line) -> None:
        text = loggable(line)
        size = len(printable(text)) + LINE
        self._closed = not self.is_open or self._left < size
        if self._closed:
            self.omit(1)
            return
        self._left -= size
        self.report_omitted()
        self.info(text)

    def omit(self, lines: int) -> None:
        self._omitted += lines

    def report_omitted(self) -> None:
        """Log how many lines were omitted since the last report, if any were."""
        if self._omitted:
            count, self._omitted = self._omitted, 0
            self.warning(f"{count} lines not logged: an attempt may log {PER_SECOND // 1024} KiB/s")


class Output:
    """One of a task's two output streams: captured, and logged line by line."""

    def __init__(self, log: AttemptLog) -> None:
        self.capture = Capture()
        self._log = log
        self._lines = LineSplitter(LOG_LINE_LIMIT)

    def feed(self, chunk: bytes) -> None:
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

"""Cutting a stream into lines, and lines to a length for the log."""

from collections.abc import Iterator
from typing import NamedTuple

from .capture import whole_characters

#: Bytes of a line in the log; the capture keeps more.
LOG_LINE_LIMIT = 4 * 1024


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
        """Yield the lines that end in *chunk*, and one that has become too long."""
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
        """Yield the last line of a stream that did not end with a line end."""
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
    data = whole_characters(line.data) if line.cut else line.data.removesuffix(b"\r")
    text = data.decode("utf-8", errors="replace")
    return f"{text} … [line cut at {LOG_LINE_LIMIT // 1024} KiB]" if line.cut else text

"""Keeping both ends of an endless stream, and cutting it into lines for the log."""

from collections.abc import Iterator
from typing import NamedTuple

from cronhare.ports.runner import Captured

KEPT = 64 * 1024
#: Bytes of a line in the log; the capture keeps more.
LOG_LINE_LIMIT = 4 * 1024

# UTF-8: continuation bytes, and from where on a first byte begins two, three or four.
_CONTINUATION = range(0x80, 0xC0)
_PREFIXES = (0xC0, 0xE0, 0xF0)
_LONGEST_CHARACTER = 4


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
        """Take in what came next."""
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
        kept, tail = bytes(self._head), bytes(self._tail[-self._kept :])
        head = whole_characters(kept)
        if self.bytes > 2 * self._kept:
            tail = _from_a_character(tail)
        elif tail:  # it follows at once: the character that was cut is whole there
            tail = kept[len(head) :] + tail
        return Captured(head=_text(head), tail=_text(tail), bytes=self.bytes, lines=self.lines)

    def last_lines(self, *, count: int, limit: int) -> str:
        """The last *count* lines, at most *limit* bytes of them."""
        end = bytes((self._head + self._tail)[-limit:])
        return "\n".join(_text(end).rstrip().splitlines()[-count:])


def whole_characters(data: bytes) -> bytes:
    """Drop a UTF-8 character that is cut off at the end.

    >>> whole_characters("Grüße".encode()[:3])
    b'Gr'
    """
    for length in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        last = data[-length]
        if last not in _CONTINUATION:
            whole = 1 + sum(last >= prefix for prefix in _PREFIXES)
            return data[:-length] if length < whole else data
    return data


def _from_a_character(data: bytes) -> bytes:
    for start in range(min(_LONGEST_CHARACTER, len(data))):
        if data[start] not in _CONTINUATION:
            return data[start:]
    return data


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

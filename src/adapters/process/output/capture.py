"""Keeping both ends of an endless stream."""

from cronhare.ports.runner import Captured

KEPT = 64 * 1024

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

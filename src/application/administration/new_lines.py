"""The lines of a stream that were not shown before, of which the ledger keeps both ends."""

from collections.abc import Iterator

import attrs

from cronhare.ports.runner import Captured

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
    # Nobody has counted in ledgers from before: then one line more stands for all that is missing.
    gap = MISSING if _may_have_gap(now) else ""
    count = now.lines if now.lines is not None else kept + bool(gap)
    if count <= kept:
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
    replaced = now.head.count("\N{REPLACEMENT CHARACTER}") + now.tail.count(
        "\N{REPLACEMENT CHARACTER}"
    )
    return bool(now.tail) and now.bytes > now.kept - 2 * replaced

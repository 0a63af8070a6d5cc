from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.process.output import Capture
from cronhare.application.administration.reading.output import MISSING, NewLine, ShownStream

PIECES = st.sampled_from([b"a", b"b\n", b"\n", "\N{EURO SIGN}".encode(), b"long", b"\xff\n"])


def shown(chunks: Sequence[bytes], *, kept: int = 8) -> list[NewLine]:
    """Show a stream after each chunk, and at its end."""
    capture, stream, lines = Capture(kept), ShownStream(), list[NewLine]()
    for chunk in chunks:
        capture.feed(chunk)
        lines += stream.new(capture.result(), is_over=False)
    return [*lines, *stream.new(capture.result(), is_over=True)]


def texts(chunks: Sequence[bytes], *, kept: int = 8) -> list[tuple[int, str, int]]:
    return [(line.number, line.text, line.left_out) for line in shown(chunks, kept=kept)]


def test_a_line_is_shown_once_it_has_its_end() -> None:
    assert texts([b"a\nb", b"c\n"], kept=100) == [(1, "a", 0), (2, "bc", 0)]


def test_lines_that_came_faster_than_they_were_shown_are_counted() -> None:
    assert texts([b"1\n2\n", b"".join(b"%d\n" % n for n in range(3, 30))]) == [
        (1, "1", 0),
        (2, "2", 0),
        (3, "3", 0),
        (4, "4", 0),
        (27, f"{MISSING}7", 22),
        (28, "28", 0),
        (29, "29", 0),
    ]


def test_a_line_that_is_longer_than_what_is_kept_has_its_end() -> None:
    assert texts([b"x" * 100 + b"end"]) == [(1, f"xxxxxxxx{MISSING}xxxxxend", 0)]


@given(st.lists(st.lists(PIECES, max_size=20).map(b"".join), max_size=6))
def test_no_line_is_lost_in_silence_or_shown_twice_or_changed(chunks: list[bytes]) -> None:
    written = b"".join(chunks).decode(errors="replace").split("\n")

    lines = shown(chunks)

    before = 0
    for line in lines:
        assert line.number == before + 1 + line.left_out
        before = line.number
        if MISSING not in line.text:
            assert line.text == written[line.number - 1]
    assert before == len(written) - (not written[-1])

from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.process.output import Capture
from cronhare.ports.runner import Captured


def captured(*chunks: bytes, kept: int) -> Captured:
    capture = Capture(kept)
    for chunk in chunks:
        capture.feed(chunk)
    return capture.result()


def test_what_fits_is_kept_whole_in_the_head() -> None:
    assert captured(b"ab", b"cd", kept=4) == Captured(head="abcd", tail="", bytes=4)


def test_a_character_on_the_seam_is_not_torn() -> None:
    assert captured("abc\u20acd".encode(), kept=4) == Captured(head="abc", tail="\u20acd", bytes=7)


def test_bytes_that_never_were_text_are_replaced() -> None:
    assert captured(b"\xff\x80\x80\x80\x80", kept=8).head == "\N{REPLACEMENT CHARACTER}" * 5


@given(st.lists(st.binary(max_size=40)), st.integers(1, 16))
def test_bytes_are_counted_and_both_ends_are_bounded(chunks: list[bytes], kept: int) -> None:
    result = captured(*chunks, kept=kept)

    assert result.bytes == sum(map(len, chunks))
    assert len(result.head) <= kept
    assert len(result.tail) <= kept + 3  # a torn character goes over to the tail


@given(st.text(), st.integers(1, 16))
def test_no_text_is_lost_that_fits_into_both(text: str, kept: int) -> None:
    data = text.encode("utf-8", "replace")[: 2 * kept]
    result = captured(data, kept=kept)

    assert result.head + result.tail == data.decode("utf-8", "replace")


def test_the_last_lines_are_those_before_the_end() -> None:
    capture = Capture(kept=8)
    capture.feed(b"one\ntwo\nthree\nfour\n\n")

    assert capture.last_lines(count=2, limit=100) == "three\nfour"
    assert capture.last_lines(count=2, limit=8) == "e\nfour"

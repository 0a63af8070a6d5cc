from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.process.output import LOG_LINE_LIMIT, Line, LineSplitter, loggable


def split(*chunks: bytes, limit: int = 8) -> list[Line]:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [*lines, *splitter.rest()]


def test_a_line_is_given_when_it_ends() -> None:
    splitter = LineSplitter(limit=8)

    assert list(splitter.feed(b"a")) == []
    assert list(splitter.feed(b"b\nc")) == [Line(b"ab")]


def test_a_line_without_an_end_is_given_before_it_grows_for_ever() -> None:
    splitter = LineSplitter(limit=4)

    assert list(splitter.feed(b"abcde")) == [Line(b"abcd", cut=True)]
    assert list(splitter.feed(b"f" * 100)) == []
    assert list(splitter.feed(b"f\nnext\n")) == [Line(b"next")]


def test_a_line_of_exactly_the_limit_is_not_cut() -> None:
    assert split(b"abcd\n", limit=4) == [Line(b"abcd")]


@given(st.lists(st.binary(max_size=8)))
def test_how_it_is_chopped_makes_no_difference(chunks: list[bytes]) -> None:
    assert split(*chunks) == split(b"".join(chunks))


def test_a_line_is_told_as_it_is_and_bytes_that_are_no_text_are_replaced() -> None:
    assert loggable(Line("\x1b[2J\ttab é €\r".encode())) == "\x1b[2J\ttab é €"
    assert loggable(Line(b"a\xffb")) == "a\N{REPLACEMENT CHARACTER}b"


def test_a_cut_line_says_so_and_tears_no_character() -> None:
    line = Line(("x" * (LOG_LINE_LIMIT - 1) + "é").encode()[:LOG_LINE_LIMIT], cut=True)

    assert loggable(line) == "x" * (LOG_LINE_LIMIT - 1) + " … [line cut at 4 KiB]"

"""What is kept of a task's output, how it is cut into lines, and what its words cost the log."""

import logging
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.process.messages import MOST_BROKEN, MessageReader
from cronhare.adapters.process.output import (
    BURST,
    LOG_LINE_LIMIT,
    PER_SECOND,
    AttemptLog,
    Capture,
    Line,
    LineSplitter,
    Output,
    loggable,
)
from cronhare.ports.runner import Captured
from tests.frozen_clock import FrozenClock
from tests.integration.invocations import invocation
from tests.unit.executions import NOON

BABBLE = invocation("yes")


def captured(*chunks: bytes, kept: int) -> Captured:
    capture = Capture(kept)
    for chunk in chunks:
        capture.feed(chunk)
    return capture.result()


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


def split(*chunks: bytes, limit: int = 8) -> list[Line]:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [*lines, *splitter.rest()]


def test_a_line_without_an_end_is_given_before_it_grows_for_ever() -> None:
    splitter = LineSplitter(limit=4)

    assert list(splitter.feed(b"abcde")) == [Line(b"abcd", cut=True)]
    assert list(splitter.feed(b"f" * 100)) == []
    assert list(splitter.feed(b"f\nnext\n")) == [Line(b"next")]


@given(st.lists(st.binary(max_size=8)))
def test_how_it_is_chopped_makes_no_difference(chunks: list[bytes]) -> None:
    assert split(*chunks) == split(b"".join(chunks))


def test_a_line_is_told_as_it_is_and_bytes_that_are_no_text_are_replaced() -> None:
    assert loggable(Line("\x1b[2J\ttab é €\r".encode())) == "\x1b[2J\ttab é €"
    assert loggable(Line(b"a\xffb")) == "a\N{REPLACEMENT CHARACTER}b"


def test_a_cut_line_says_so_and_tears_no_character() -> None:
    line = Line(("x" * (LOG_LINE_LIMIT - 1) + "é").encode()[:LOG_LINE_LIMIT], cut=True)

    assert loggable(line) == "x" * (LOG_LINE_LIMIT - 1) + " … [line cut at 4 KiB]"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOON)


@pytest.fixture
def journal(clock: FrozenClock, caplog: pytest.LogCaptureFixture) -> AttemptLog:
    caplog.set_level(logging.INFO, logger="cronhare.task")
    return AttemptLog(BABBLE, clock.monotonic)


#: More than ten times what is logged of a burst, in each second.
LINES = 1024


def test_a_task_that_writes_without_end_costs_a_burst_and_then_so_much_a_second(
    journal: AttemptLog, clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    streams = Output(journal), Output(journal)  # they share what it may cost

    for n in range(600):  # a minute
        streams[n % 2].feed(b"\n" * LINES)
        clock.advance(timedelta(seconds=0.1))
    for each in streams:
        each.end()

    assert len(caplog.records) * 256 <= BURST + 62 * PER_SECOND
    said = [record.getMessage() for record in caplog.records]
    left_out = [int(each.split()[0]) for each in said if "lines not logged" in each]
    assert len(left_out) <= 62
    assert sum(left_out) + len(said) - len(left_out) == 600 * LINES


def test_a_task_that_breaks_too_many_messages_is_not_listened_to_any_more(
    journal: AttemptLog, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = MessageReader(journal)

    messages = inbox.feed(b"\n" * (MOST_BROKEN + 10) + b'{"progress": 0.5}\n')

    assert messages == []
    assert len(caplog.records) == 11

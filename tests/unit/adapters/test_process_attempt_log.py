"""What a task's words cost the log."""

import logging

import pytest

from cronhare.adapters.process.messages import MOST_BROKEN, MessageReader
from cronhare.adapters.process.output import (
    BURST,
    PER_SECOND,
    AttemptLog,
    Output,
)
from tests.integration.invocations import invocation

BABBLE = invocation("yes")


class Seconds:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def journal(seconds: Seconds, caplog: pytest.LogCaptureFixture) -> AttemptLog:
    caplog.set_level(logging.INFO, logger="cronhare.task")
    return AttemptLog(BABBLE, seconds)


def words(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_task_of_a_few_hundred_lines_is_logged_whole(
    journal: AttemptLog, caplog: pytest.LogCaptureFixture
) -> None:
    output = Output(journal)

    output.feed(b"line\n" * 400)
    output.end()

    assert words(caplog) == ["line"] * 400


#: More than ten times what is logged of a burst, in each second.
LINES = 1024


def test_a_task_that_writes_without_end_costs_a_burst_and_then_so_much_a_second(
    journal: AttemptLog, seconds: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    output = Output(journal)

    for _ in range(600):  # a minute
        output.feed(b"\n" * LINES)
        seconds.now += 0.1
    output.end()

    assert len(caplog.records) * 256 <= BURST + 62 * PER_SECOND
    left_out = [int(each.split()[0]) for each in words(caplog) if "lines not logged" in each]
    assert len(left_out) <= 62
    logged = len(caplog.records) - len(left_out)
    assert sum(left_out) + logged == 600 * LINES


def test_long_lines_cost_what_they_are_long(
    journal: AttemptLog, caplog: pytest.LogCaptureFixture
) -> None:
    output = Output(journal)

    output.feed((b"x" * 4000 + b"\n") * 1000)
    output.end()

    assert sum(len(text) for text in words(caplog)) <= BURST + 100
    assert "lines not logged" in words(caplog)[-1]


def test_both_streams_of_an_attempt_share_its_budget(
    journal: AttemptLog, caplog: pytest.LogCaptureFixture
) -> None:
    out, err = Output(journal), Output(journal)

    out.feed(b"\n" * 10_000)
    err.feed(b"told\n")

    assert "told" not in words(caplog)


def test_what_is_kept_of_the_output_knows_nothing_of_the_log(journal: AttemptLog) -> None:
    output = Output(journal)

    for _ in range(10):
        output.feed(b"0123456789abcde\n" * 4096)
    output.end()

    kept = output.capture.result()
    assert kept.bytes == 10 * 16 * 4096
    assert len(kept.head) == len(kept.tail) == 64 * 1024


def test_a_task_that_breaks_too_many_messages_is_not_listened_to_any_more(
    journal: AttemptLog, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = MessageReader(journal)

    messages = inbox.feed(b"\n" * (MOST_BROKEN + 10) + b'{"progress": 0.5}\n')

    assert messages == []
    assert len(caplog.records) == 11

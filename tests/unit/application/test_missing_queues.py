"""When the log says that a queue is not there, and when it says so again."""

from datetime import timedelta
from itertools import count

import pytest

from cronhare.application.outages import LogLimiter
from cronhare.application.publish import MissingQueues, Sent
from cronhare.domain.topology import ToQueue
from cronhare.ports.broker import Envelope, Message, Published
from tests.unit.application.conftest import Lines
from tests.unit.application.house import NOON
from tests.unit.executions import execution

SECOND = timedelta(seconds=1)


def sent(to: ToQueue) -> Sent:
    return execution(id=7, schedule_name="report"), Envelope(Message(body=b""), to)


def test_a_queue_that_was_there_meanwhile_is_told_of_at_once(lines: Lines) -> None:
    missing = MissingQueues(in_memory=False)

    for number, outcome in enumerate([Published.RETURNED, Published.CONFIRMED] * 2):
        missing.note([sent(ToQueue("mails"))], [outcome], now=NOON + number * SECOND)

    assert len(lines()) == 2


@pytest.mark.parametrize("names", [1_500, 72_000])
def test_names_that_strangers_make_up_neither_fill_the_log_nor_silence_it_for_good(
    names: int,
) -> None:
    limiter, messages = LogLimiter(), count()

    lines = sum(
        limiter.is_due(f"nowhere-{next(messages) % names}", now)
        for now in range(0, 6 * 3_600, 30)
        for _ in range(100)
    )

    assert lines < 8_000
    assert not limiter.is_due("mails", 6 * 3_600)
    assert limiter.is_due("mails", 3 * 86_400)


@pytest.mark.parametrize(
    ("queue", "add"),
    [
        ("mails", "add a schedule on that queue to its jobs file"),
        ("cron_standalone.pump", "add the task to its jobs file"),
    ],
)
def test_where_the_broker_is_in_memory_no_worker_is_advised_which_would_be_refused(
    lines: Lines, queue: str, add: str
) -> None:
    MissingQueues(in_memory=True).note([sent(ToQueue(queue))], [Published.RETURNED], now=NOON)

    [line] = lines()
    assert f"until there is: stop `cronhare up`, {add}, and start it again. Or correct" in line
    assert "worker" not in line

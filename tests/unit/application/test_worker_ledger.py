"""How a worker asks the ledger: together, again, and with a log that tells of an outage."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from cronhare.application.ledger_threads import LedgerThreads
from cronhare.application.outages import REMIND_EVERY, Outage
from cronhare.application.worker.ledger import (
    MOST_FAILURES,
    Batcher,
    LedgerRetry,
)
from cronhare.ports import LedgerBusy, LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.unit.application.conftest import Lines
from tests.unit.application.house import Inline

LEASE = timedelta(seconds=30)


class Desk:
    """A ledger that answers some of those who ask, and not others."""

    def __init__(self) -> None:
        self.clock = FrozenClock(datetime(2026, 3, 2, 12, tzinfo=UTC))
        self.is_up = False
        self.ledger_retry = LedgerRetry(
            self.clock, timeout=LEASE, sleep=self._rest, is_up=self._is_up
        )
        self.rests: list[float] = []
        self.trouble: Exception | None = None

    async def _rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        await asyncio.sleep(0)

    async def _is_up(self) -> bool:
        return self.is_up

    async def start(self) -> str:
        if self.trouble is not None:
            raise self.trouble
        return "started"

    async def end(self) -> str:
        return "ended"

    def starts(self) -> "asyncio.Task[str]":
        return asyncio.create_task(self.ledger_retry.to_begin(self.start))


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def let_it_ask() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def has_given_way(waiting: "asyncio.Task[str]", turns: int = 4 * MOST_FAILURES) -> bool:
    """Let it ask so often, and tell whether it was told to come back later."""
    for _ in range(turns):
        await let_it_ask()
    return waiting.done() and isinstance(waiting.exception(), LedgerBusy)


def said(lines: Lines) -> tuple[int, int]:
    """Count how often the log says that the ledger is silent, and that it answers again."""
    return (
        sum("does not answer" in line for line in lines()),
        sum("answers again" in line for line in lines()),
    )


async def test_what_is_answered_beside_what_is_not_ends_no_alarm(desk: Desk, lines: Lines) -> None:
    desk.trouble = LedgerUnavailable("a rule refuses each start")
    waiting = [desk.starts() for _ in range(2)]
    for _ in range(5):
        await let_it_ask()
        assert await desk.ledger_retry.to_finish(desk.end) == "ended"
    during = said(lines)

    desk.trouble = None
    await asyncio.gather(*waiting)

    assert (during, said(lines)) == ((1, 0), (1, 1))


@pytest.mark.parametrize("bounded", [True, False])
async def test_an_end_gives_its_place_away_after_few_silences_if_it_can(
    desk: Desk, *, bounded: bool
) -> None:
    desk.trouble = LedgerUnavailable("the archive is full")
    waiting = asyncio.create_task(desk.ledger_retry.to_finish(desk.start, bounded=bounded))
    assert await has_given_way(waiting) == bounded
    desk.trouble = None
    await let_it_ask()

    assert waiting.done()


@pytest.mark.parametrize("changed_nothing", [True, False])
async def test_a_binding_start_that_may_be_written_is_asked_for_until_it_is_answered(
    desk: Desk, *, changed_nothing: bool
) -> None:
    desk.is_up = True
    desk.trouble = LedgerUnavailable("lost", changed_nothing=changed_nothing)
    waiting = asyncio.create_task(
        desk.ledger_retry.to_begin(desk.start, returned=True, binding=True)
    )
    await has_given_way(waiting)
    desk.trouble = LedgerBusy("its row is held")
    await let_it_ask()
    desk.ledger_retry.drain()
    assert await has_given_way(waiting, 1) == changed_nothing
    desk.trouble = None
    await let_it_ask()

    assert changed_nothing or waiting.result() == "started"


@pytest.mark.parametrize("is_up", [True, False])
async def test_a_start_without_an_answer_gives_its_place_away_if_the_ledger_answers_others(
    desk: Desk, *, is_up: bool
) -> None:
    desk.is_up = is_up
    desk.trouble = LedgerUnavailable("a rule refuses this one")
    waiting = desk.starts()

    assert await has_given_way(waiting) == is_up
    desk.trouble = None
    await let_it_ask()

    assert waiting.done()


async def test_one_question_that_cannot_be_asked_spoils_no_other() -> None:
    def double(questions: Sequence[int]) -> Sequence[int]:
        if 13 in questions:
            raise ValueError("13 cannot be asked")
        return [2 * question for question in questions]

    batcher = Batcher[int, int](double, in_thread=LedgerThreads(Inline()))

    answers = await asyncio.gather(
        *(batcher.submit(number) for number in (12, 13, 14)), return_exceptions=True
    )

    assert (answers[0], answers[2]) == (24, 28)
    assert isinstance(answers[1], ValueError)


# What a log says of a server that is away


def test_a_trouble_that_lasts_is_told_once_a_minute_and_its_end_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    now = 0.0
    outage = Outage(logging.getLogger("test"), "It works again", monotonic=lambda: now)

    outage.is_over()
    for second in range(int(REMIND_EVERY * 2) + 1):
        now = float(second)
        outage.lasts(logging.ERROR, "away", "Asking again", "refused")
    outage.is_over()
    outage.is_over()

    trouble = [
        f"Asking again: refused{since}" for since in ("", " (for 60 s now)", " (for 120 s now)")
    ]
    assert [record.getMessage() for record in caplog.records] == [
        *trouble,
        "It works again, after 120 s",
    ]

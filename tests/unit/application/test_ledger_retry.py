"""How long a worker asks the ledger, and what the log says of an outage that not all have."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from cronhare.application.worker.ledger import (
    MOST_FAILURES,
    LedgerRetry,
)
from cronhare.ports import LedgerBusy, LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.unit.application.conftest import Lines

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


def told(lines: Lines) -> tuple[int, int]:
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
    during = told(lines)

    desk.trouble = None
    await asyncio.gather(*waiting)

    assert (during, told(lines)) == ((1, 0), (1, 1))


@pytest.mark.parametrize("bounded", [True, False])
async def test_an_end_gives_its_place_away_after_few_silences_if_it_can(
    desk: Desk, *, bounded: bool
) -> None:
    desk.trouble = LedgerUnavailable("the archive is full")
    waiting = asyncio.create_task(desk.ledger_retry.to_finish(desk.start, bounded=bounded))
    for _ in range(10):
        await let_it_ask()
    has_given_way = waiting.done() and isinstance(waiting.exception(), LedgerBusy)
    desk.trouble = None
    await let_it_ask()

    assert has_given_way == bounded
    assert waiting.done()


@pytest.mark.parametrize("changed_nothing", [True, False])
async def test_a_binding_start_that_may_be_written_is_asked_for_until_it_is_answered(
    *, changed_nothing: bool
) -> None:
    desk = Desk()

    desk.is_up = True
    desk.trouble = LedgerUnavailable("lost", changed_nothing=changed_nothing)
    waiting = asyncio.create_task(
        desk.ledger_retry.to_begin(desk.start, returned=True, binding=True)
    )
    for _ in range(4 * MOST_FAILURES):
        await let_it_ask()
    desk.trouble = LedgerBusy("its row is held")
    await let_it_ask()
    desk.ledger_retry.drain()
    await let_it_ask()
    has_given_way = waiting.done() and isinstance(waiting.exception(), LedgerBusy)
    desk.trouble = None
    await let_it_ask()

    assert has_given_way == changed_nothing
    assert changed_nothing or waiting.result() == "started"


@pytest.mark.parametrize("is_up", [True, False])
async def test_a_start_without_an_answer_gives_its_place_away_if_the_ledger_answers_others(
    *, is_up: bool
) -> None:
    desk = Desk()
    desk.is_up = is_up
    desk.trouble = LedgerUnavailable("a rule refuses this one")
    waiting = desk.starts()

    for _ in range(4 * MOST_FAILURES):
        await let_it_ask()
    has_given_way = waiting.done() and isinstance(waiting.exception(), LedgerBusy)
    desk.trouble = None
    await let_it_ask()

    assert has_given_way == is_up
    assert waiting.done()

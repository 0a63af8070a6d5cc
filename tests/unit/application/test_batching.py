import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from cronhare.application.ledger_threads import LedgerThreads
from cronhare.application.worker import ledger
from cronhare.application.worker.ledger import Batcher
from cronhare.ports import LedgerUnavailable
from tests.unit.application.house import Inline


class Doubling:
    """Answers questions by doubling them, and remembers who was asked together."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.away = False

    def __call__(self, questions: Sequence[int]) -> Sequence[int]:
        self.groups.append(list(questions))
        if self.away:
            raise LedgerUnavailable("away")
        if 13 in questions:
            raise ValueError("13 cannot be asked")
        return [2 * question for question in questions]


async def test_what_is_asked_meanwhile_is_asked_together() -> None:
    asked, answer = Event(), Event()
    ask = Doubling()

    def slowly(questions: Sequence[int]) -> Sequence[int]:
        asked.set()
        answer.wait(5)
        return ask(questions)

    with ThreadPoolExecutor(1) as executor:
        batcher = Batcher[int, int](slowly, in_thread=LedgerThreads(executor))
        first = batcher.submit(0)
        await asyncio.to_thread(asked.wait, 5)
        later = [batcher.submit(number) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        answer.set()
        await asyncio.gather(first, *later)

    assert ask.groups == [[0], [1, 2, 3]]


async def test_a_ledger_that_is_away_is_everybodys_error_and_asked_once() -> None:
    ask = Doubling()
    ask.away = True
    batcher = Batcher[int, int](ask, in_thread=LedgerThreads(Inline()))

    answers = await asyncio.gather(
        *(batcher.submit(number) for number in range(3)), return_exceptions=True
    )

    assert [type(answer) for answer in answers] == [LedgerUnavailable] * 3
    assert len(ask.groups) == 1


async def test_one_question_that_cannot_be_asked_spoils_no_other() -> None:
    batcher = Batcher[int, int](Doubling(), in_thread=LedgerThreads(Inline()))

    answers = await asyncio.gather(
        *(batcher.submit(number) for number in (12, 13, 14)), return_exceptions=True
    )

    assert (answers[0], answers[2]) == (24, 28)
    assert isinstance(answers[1], ValueError)


async def test_a_group_waits_to_become_as_large_as_the_one_before() -> None:
    ask = Doubling()
    batcher = Batcher[int, int](ask, in_thread=LedgerThreads(Inline()), linger=60)
    await asyncio.gather(*(batcher.submit(number) for number in (1, 2)))

    first = batcher.submit(3)
    await asyncio.sleep(0.01)
    asked_before = len(ask.groups)
    await asyncio.wait_for(asyncio.gather(first, batcher.submit(4)), 5)

    assert (asked_before, ask.groups) == (1, [[1, 2], [3, 4]])


async def test_a_single_question_waits_for_no_company_of_long_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "LATELY", 0.0)
    batcher = Batcher[int, int](Doubling(), in_thread=LedgerThreads(Inline()), linger=60)
    await asyncio.gather(*(batcher.submit(number) for number in (1, 2)))

    assert await asyncio.wait_for(batcher.submit(3), 5) == 6

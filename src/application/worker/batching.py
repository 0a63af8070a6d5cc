"""Batching: what concurrent tasks ask of the ledger becomes one statement.

While one batch is under way, the next one gathers, and then waits a moment to become as large as
the one before: what was answered together comes back together. A single question after another
single one goes at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from cronhare.ports.errors import LedgerUnavailable

from ..ledger_threads import LedgerThreads

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """Turns single questions into calls of a function that answers many, in order."""

    def __init__(
        self,
        ask: Callable[[Sequence[Q]], Sequence[A]],
        *,
        executor: Executor,
        most: int = 256,
        linger: float = 0.0,
    ) -> None:
        """*ask* is called on *executor*, never twice at a time, with at most *most* questions.

        A batch waits for more questions for up to *linger* seconds.
        """
        self._ask = ask
        self._in_thread = LedgerThreads(executor)
        self._most = most
        self._linger = linger
        self._expected = 1  # the size of the last batch
        self._complete = asyncio.Event()
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def submit(self, question: Q) -> A:
        """Ask, and wait for the answer.

        `LedgerUnavailable` is raised for each question of a batch; any other error is raised for
        the question that causes it alone.
        """
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if len(self._waiting) >= self._expected:
            self._complete.set()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_all())
        return await answer

    async def _ask_all(self) -> None:
        try:
            while self._waiting:
                await self._wait_for_more()
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                self._expected = len(batch)
                await self._ask_batch(batch)
        finally:
            self._asking = None

    async def _wait_for_more(self) -> None:
        if len(self._waiting) < self._expected:
            self._complete.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._linger):
                    await self._complete.wait()

    async def _ask_batch(self, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        questions = [question for question, _ in batch]
        try:
            answers = await self._in_thread(partial(self._ask, questions))
            answered = list(zip(batch, answers, strict=True))
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            await self._fail(batch, error)
            return
        for (_, future), answer in answered:
            if not future.cancelled():
                future.set_result(answer)

    async def _fail(self, batch: Sequence[tuple[Q, asyncio.Future[A]]], error: Exception) -> None:
        """Hand on an error; one that is no outage may be the fault of a single question."""
        if len(batch) > 1 and not isinstance(error, LedgerUnavailable):
            for single in batch:
                await self._ask_batch([single])
            return
        for _, future in batch:
            if not future.cancelled():
                future.set_exception(error)

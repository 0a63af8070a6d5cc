"""Signals that end nothing: one answer that hangs must not silence the others."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from cronhare.entrypoints.attention import ASKING, Attention


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ASKING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_an_answer_that_hangs_keeps_others_no_longer_than_its_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    attention, freed, told = Attention(patience=0.01), asyncio.Event(), asyncio.Event()
    begun: list[asyncio.Event] = []

    async def hang() -> None:
        begun.append(freed)
        await freed.wait()

    async def tell() -> None:
        told.set()

    attention.listen({signal.SIGHUP: hang, signal.SIGUSR1: tell})
    try:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGUSR1)
        await told.wait()
    finally:
        for number in ASKING:
            asyncio.get_running_loop().remove_signal_handler(number)

    assert len(begun) == 1, "no second thread for what hangs"
    assert "No answer to SIGHUP within 0.01 s" in caplog.text
    assert "SIGHUP is not heeded: an earlier one has no answer yet" in caplog.text
    freed.set()

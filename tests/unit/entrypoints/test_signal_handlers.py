"""Signals that end nothing: one answer that hangs must not silence the others."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from cronhare.entrypoints.early_signals import REQUESTS
from cronhare.entrypoints.signals import SignalHandlers


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in REQUESTS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_an_answer_that_hangs_keeps_no_other_signal_waiting_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers, freed, told = SignalHandlers(timeout=0.01), asyncio.Event(), asyncio.Event()
    begun, hangs = list[asyncio.Event](), asyncio.Event()

    async def hang() -> None:
        begun.append(freed)
        hangs.set()
        await freed.wait()

    async def tell() -> None:
        told.set()

    handlers.listen({signal.SIGHUP: hang, signal.SIGUSR1: tell})
    try:
        signal.raise_signal(signal.SIGHUP)
        await hangs.wait()
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGUSR1)
        await told.wait()
    finally:
        for number in REQUESTS:
            asyncio.get_running_loop().remove_signal_handler(number)

    assert len(begun) == 1, "no second thread for what hangs"
    async with asyncio.timeout(5):
        while "No answer to SIGHUP within 0.01 s" not in caplog.text:  # noqa: ASYNC110 - it is the log
            await asyncio.sleep(0.01)
    hangs.clear()
    freed.set()
    await hangs.wait()
    assert len(begun) == 2, "what waited for it"


async def test_a_signal_that_waits_for_its_answer_waits_once() -> None:
    handlers, begun = SignalHandlers(), asyncio.Event()
    freed, told = asyncio.Event(), asyncio.Event()
    reloads = 0

    async def reload() -> None:
        nonlocal reloads
        reloads += 1
        begun.set()
        await freed.wait()

    async def tell() -> None:
        told.set()

    handlers.listen({signal.SIGHUP: reload, signal.SIGUSR1: tell})
    try:
        signal.raise_signal(signal.SIGHUP)
        await begun.wait()
        for _ in range(100):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGUSR1)
        freed.set()
        await told.wait()
    finally:
        for number in REQUESTS:
            asyncio.get_running_loop().remove_signal_handler(number)

    assert reloads == 2, "the one that had begun, and one for all that came meanwhile"

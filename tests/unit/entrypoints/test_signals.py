"""Signals: what answers them, and when a shutdown is over whether it has ended or not."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from cronhare.domain.nodes import ENDING
from cronhare.entrypoints.early_signals import REQUESTS
from cronhare.entrypoints.signals import LEAVING, ForcedExit, SignalHandlers


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
        for _ in range(100):
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
    await asyncio.sleep(0.01)
    assert len(begun) == 2, "one for all that came meanwhile"


class Seconds:
    def __init__(self, *times: float) -> None:
        self._times = list(times)

    def __call__(self) -> float:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


def limits(signals: int, *, grace: float) -> list[float]:
    forced_exit = ForcedExit(grace=grace, clock=lambda: 1000.0)
    for _ in range(signals):
        forced_exit.signalled()
    return [forced_exit._ends.get() - 1000.0 for _ in range(signals)]


def test_a_second_signal_takes_the_grace_away_and_a_third_the_rest() -> None:
    assert limits(4, grace=30.0) == [30.0 + ENDING, ENDING, 0.0, 0.0]


def test_nobody_waits_beyond_the_soonest_end() -> None:
    forced_exit = ForcedExit(grace=30.0, clock=Seconds(0.0, 0.0, 5.0))
    forced_exit.signalled()
    forced_exit.signalled()
    forced_exit.signalled()

    forced_exit.wait()  # the third signal's end is now, though the first one's is not


def test_threads_that_are_left_have_a_time_of_their_own() -> None:
    forced_exit = ForcedExit(grace=3600.0, clock=Seconds(0.0, 0.0, LEAVING + 1))
    forced_exit.signalled()
    forced_exit.leaving()

    forced_exit.wait()

"""The end of a loop: waited for, and told where it does not come."""

import asyncio
import logging
import threading

import pytest

from cronhare.entrypoints.processes.loops import Loop, stop_all
from cronhare.ports import LedgerUnavailable

#: Seconds: whoever waits for so long hangs.
HANGS = 60.0


def given_up(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record for record in caplog.records if vars(record)["action"] == "shutdown.given-up"]
    return sorted(record.getMessage().partition(": ")[2] for record in told)


async def test_each_loop_that_does_not_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """More of them than the event loop has threads."""
    caplog.set_level(logging.WARNING)
    servers_answer, names = threading.Event(), [f"loop {n:02}" for n in range(40)]

    def hang() -> None:
        servers_answer.wait(HANGS)

    loops = [Loop(name, hang, ends_within=0.05) for name in names]
    for loop in loops:
        loop.start()

    await stop_all(loops)

    servers_answer.set()
    assert given_up(caplog) == [f"the last round of the {name}" for name in names]


async def test_a_loop_that_ends_is_not_told_and_begins_no_other_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, rounds = threading.Event(), []

    def work() -> float:
        rounds.append(1)
        begun.set()
        return HANGS

    loop = Loop("clock", work, ends_within=HANGS, at_end=lambda: rounds.append(0))
    loop.start()
    begun.wait(HANGS)

    await loop.stop()

    assert rounds == [1, 0]
    assert given_up(caplog) == []


class Ringing:
    """Rings again and again, or once."""

    def __init__(self, *, always: bool) -> None:
        self._always = always
        self._event = threading.Event()

    def wait(self, seconds: float) -> bool:
        rang = self._event.wait(seconds)
        if not self._always:
            self._event.clear()
        return rang

    def wake(self) -> None:
        self._event.set()


async def test_a_ring_ends_a_rest_and_so_does_a_stop() -> None:
    begun, again, rings, rung = threading.Event(), threading.Event(), Ringing(always=False), [0]

    def work() -> float:
        (again if begun.is_set() else begun).set()
        return HANGS

    def note() -> None:
        rung[0] += 1

    loop = Loop("scheduler", work, ends_within=HANGS / 2, rings=rings, on_ring=note)
    loop.start()
    begun.wait(HANGS)
    rings.wake()

    assert again.wait(HANGS / 2)
    assert rung == [1]
    await loop.stop()


async def test_who_has_failed_is_not_called_sooner_by_a_ring() -> None:
    rounds, failed, rings = [], threading.Event(), Ringing(always=True)
    rings.wake()

    def work() -> float:
        rounds.append(1)
        failed.set()
        raise LedgerUnavailable

    loop = Loop("scheduler", work, ends_within=HANGS, rings=rings)
    loop.start()
    failed.wait(HANGS)
    await asyncio.sleep(0.25)
    await loop.stop()

    assert rounds == [1]

"""A worker consumes as the ledger wants it."""

import asyncio
from collections.abc import Callable
from functools import partial

from cronhare.entrypoints.processes.consuming import Draining
from cronhare.entrypoints.signals import ForcedExit, Shutdown


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(0)


async def _play() -> list[str]:
    done: list[str] = []
    shutdown = Shutdown(ForcedExit(grace=0))

    async def rest() -> None:
        done.append("rest")

    async def resume() -> None:
        done.append("resume")

    draining = Draining(rest=rest, resume=resume, shutdown=shutdown)
    following = asyncio.create_task(draining.follow())
    for drain, changes in ((False, 0), (True, 1), (True, 1), (False, 2), (True, 3)):
        # As the heartbeat does: from a thread, again and again.
        await asyncio.to_thread(draining.told, drain)
        await until(partial(lambda changes: len(done) == changes, changes))
    shutdown.requested.set()
    await asyncio.wait_for(following, 5)
    return done


def test_it_rests_and_resumes_once_for_each_change_and_ends_with_a_shutdown() -> None:
    assert asyncio.run(_play()) == ["rest", "resume", "rest"]


async def _hangs() -> None:
    shutdown = Shutdown(ForcedExit(grace=0))
    asked, hang = asyncio.Event(), asyncio.Event()

    async def rest() -> None:
        asked.set()
        await hang.wait()

    draining = Draining(rest=rest, resume=rest, shutdown=shutdown)
    following = asyncio.create_task(draining.follow())
    draining.told(drain=True)
    await asyncio.wait_for(asked.wait(), 5)
    shutdown.requested.set()
    await asyncio.wait_for(following, 2)


def test_a_shutdown_does_not_wait_for_a_broker_that_hangs_while_it_drains() -> None:
    asyncio.run(_hangs())

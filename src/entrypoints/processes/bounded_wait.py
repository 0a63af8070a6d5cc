"""Waiting within bounds while a process ends."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any

from cronhare.application.logs import say

log = logging.getLogger(__name__)


async def wait_at_most(seconds: float, what: str, waiting: Coroutine[Any, Any, object]) -> bool:
    """Wait for *waiting* at most so long; False if it was given up.

    It is then cancelled, and not waited for: that may take as long again.
    """
    task = asyncio.create_task(waiting, name=what)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    if not done:
        text = f"Not waited for any longer than {seconds:g} s: {what}"
        say(log, logging.WARNING, "shutdown.given-up", text)
        task.add_done_callback(_forget)
        return False
    await task
    return True


async def wait_unless(stop: asyncio.Event, waiting: Awaitable[object]) -> bool:
    """Wait for *waiting* unless *stop* comes first; False if it was given up.

    It is then cancelled, and not waited for: a server that hangs would hold up what comes next.
    """
    task = asyncio.ensure_future(waiting)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        task.cancel()
    if not task.done():
        task.add_done_callback(_forget)
        return False
    await task
    return True


def _forget(task: "asyncio.Future[object]") -> None:
    """Retrieve its exception, or Python would warn that it never was."""
    if not task.cancelled():
        task.exception()

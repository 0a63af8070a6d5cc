"""Waiting within bounds while a process ends."""

import asyncio
import logging
from collections.abc import Coroutine
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


def _forget(task: "asyncio.Task[object]") -> None:
    """Retrieve its exception, or Python would warn that it never was."""
    if not task.cancelled():
        task.exception()

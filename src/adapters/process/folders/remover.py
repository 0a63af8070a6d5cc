"""Removing folders beside the event loop."""

import asyncio
import logging
import os
import threading
from collections import deque

from cronhare.application.logs import say

from .removal import remove

log = logging.getLogger(__name__)

_PAUSE = 0.01


class Remover:
    """Removes folders in a daemon thread, which lives while there is work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[str] = deque()
        self._is_working = False

    def remove(self, path: str) -> None:
        """Remove a folder: at once if it is empty, else in the thread. Never raises."""
        try:
            os.rmdir(path)  # noqa: PTH106 - pathlib is slower, and this is hot
        except FileNotFoundError:
            pass
        except OSError:
            self._later(path)

    async def idle(self, seconds: float) -> None:
        """Wait until all is removed, at most *seconds*."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._is_working and loop.time() < end:  # noqa: ASYNC110 - a thread's work
            await asyncio.sleep(_PAUSE)

    def _later(self, path: str) -> None:
        with self._lock:
            self._waiting.append(path)
            if self._is_working:
                return
            self._is_working = True
        try:
            threading.Thread(target=self._work, name="removing", daemon=True).start()
        except RuntimeError:  # no thread can be started: the next folder tries again
            self._is_working = False

    def _work(self) -> None:
        while (path := self._next()) is not None:
            try:
                left = remove(path)
            except Exception:  # the next folder is innocent
                text = f"The removal of {path} met a fault of ours"
                log.exception("%s", text, extra={"action": "fault"})
            else:
                if left is not None:
                    text = f"Not all of {path} could be removed: {left}"
                    say(log, logging.DEBUG, "folder.left", text)

    def _next(self) -> str | None:
        with self._lock:
            if not self._waiting:
                self._is_working = False
                return None
            return self._waiting.popleft()

"""Telling a busy warden from one that is stopped or hangs."""

import asyncio
import logging
import os
from collections.abc import Callable
from subprocess import Popen

log = logging.getLogger(__name__)

#: Seconds between two pings, each of which continues a warden that was stopped.
EVERY = 0.5
#: A warden is killed after so many pings without an answer, which ends the tasks it runs.
UNANSWERED = 30
#: Seconds between two warnings of a warden that is stopped again and again.
QUIET = 10.0


class LivenessCheck:
    """Pings a warden as long as it is *needed*; else it costs nothing.

    A task of our user can stop the warden: it is continued, and nothing is lost. If that does not
    help it is killed, which the link sees as any warden's end.
    """

    def __init__(
        self, process: "Popen[bytes]", *, ask: Callable[[], None], needed: Callable[[], bool]
    ) -> None:
        """*ask* pings the warden and continues it; call `answered` for each answer."""
        self._process = process
        self._ask = ask
        self._needed = needed
        self._unanswered = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._warned_at = -QUIET

    def begin(self) -> None:
        """Ping from now on, as long as it is needed. Safe to repeat."""
        if self._timer is None:
            self._timer = self._loop.call_later(EVERY, self._check)

    def answered(self) -> None:
        """Note that it lives."""
        self._unanswered = 0

    def stop(self) -> None:
        """Ping no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        # Counted in pings and not in seconds: if we stood still ourselves, none is missing.
        if self._unanswered >= UNANSWERED:
            self._warn("does not come to itself and is killed; its tasks are lost")
            self._process.kill()
            return
        if not self._unanswered and not self._needed():
            self._timer = None
            return
        if self._is_stopped() and self._loop.time() - self._warned_at >= QUIET:
            self._warned_at = self._loop.time()
            self._warn("stands still, as if a task had stopped it, and is continued")
        self._unanswered += 1
        self._ask()
        self._timer = self._loop.call_later(EVERY, self._check)

    def _is_stopped(self) -> bool:
        """Ask the kernel, as a busy warden deserves no warning."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:  # it has ended, which the link sees
            return False

    def _warn(self, what: str) -> None:
        text = f"The warden (pid {self._process.pid}) {what}"
        log.warning("%s", text, extra={"action": "warden.silent"})

"""Telling a warden that is busy from one that stands still."""

import asyncio
import logging
import os
from collections.abc import Callable
from subprocess import Popen

log = logging.getLogger(__name__)

#: Seconds between two questions, each of which continues a warden that was stopped.
EVERY = 0.5
#: A warden that leaves so many in a row unanswered is killed: nobody else would end what it runs.
UNANSWERED = 30
#: Seconds between two words on a warden that is stopped again and again.
QUIET = 10.0


class LivenessCheck:
    """Asks a warden whether it lives, as long as somebody depends on it; else it costs nothing.

    A task of our user can stop it: then it is continued, and nothing is lost. If that does not
    help it is killed, which is seen as the end of any warden is.
    """

    def __init__(
        self, process: "Popen[bytes]", *, ask: Callable[[], None], needed: Callable[[], bool]
    ) -> None:
        """*ask* sends a question, and continues it; `answered` is to be called for each answer."""
        self._process = process
        self._ask = ask
        self._needed = needed
        self._unanswered = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._warned_at = -QUIET

    def begin(self) -> None:
        """Ask from now on, for as long as it is needed. Safe to repeat."""
        if self._timer is None:
            self._timer = self._loop.call_later(EVERY, self._check)

    def answered(self) -> None:
        """It lives."""
        self._unanswered = 0

    def stop(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        # Counted in questions and not in seconds: if it is we who stood still, nothing is missing.
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
        """Ask the kernel: one that is merely busy is not to be complained of."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:  # it has ended, which is told by its line
            return False

    def _warn(self, what: str) -> None:
        text = f"The warden (pid {self._process.pid}) {what}"
        log.warning("%s", text, extra={"action": "warden.silent"})

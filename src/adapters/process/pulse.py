"""Telling a warden that is busy from one that stands still."""

import asyncio
import logging
import signal
from collections.abc import Callable
from subprocess import Popen

log = logging.getLogger(__name__)

#: Seconds between two questions.
EVERY = 3.0
#: A warden that leaves so many in a row unanswered is killed: nobody else would end what it runs.
UNANSWERED = 5


class Pulse:
    """Asks a warden whether it lives, as long as somebody depends on it.

    A task of our user can stop it: then it is continued, and nothing is lost. If that does not
    help it is killed, which is seen as the end of any warden is.
    """

    def __init__(
        self, process: "Popen[bytes]", *, ask: Callable[[], None], needed: Callable[[], bool]
    ) -> None:
        """*ask* sends a question; `answered` is to be called for each answer."""
        self._process = process
        self._ask = ask
        self._needed = needed
        self._unanswered = 0
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(EVERY, self._beat)

    def answered(self) -> None:
        """It lives."""
        self._unanswered = 0

    def stop(self) -> None:
        """Ask no more."""
        self._timer.cancel()

    def _beat(self) -> None:
        # Counted in questions and not in seconds: if it is we who stood still, nothing is missing.
        if self._unanswered >= UNANSWERED:
            self._say("does not come to itself and is killed; its tasks are lost")
            self._process.kill()
            return
        if self._unanswered == 1:
            self._say("stands still, as if a task had stopped it, and is continued")
        if self._unanswered:
            self._process.send_signal(signal.SIGCONT)
        if self._unanswered or self._needed():
            self._unanswered += 1
            self._ask()
        self._timer = self._loop.call_later(EVERY, self._beat)

    def _say(self, what: str) -> None:
        text = f"The warden (pid {self._process.pid}) {what}"
        log.warning("%s", text, extra={"action": "warden.silent"})

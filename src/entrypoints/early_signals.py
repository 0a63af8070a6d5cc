"""Notes the signals that end nothing from a process's first moment on, before its imports.

They must not end it until they are handled. It is imported first, so it imports next to nothing.
"""

import signal
from collections.abc import Sequence
from types import FrameType
from typing import Final

#: SIGHUP asks for a reload, SIGUSR1 for a report of the state.
REQUESTS: Final = (signal.SIGHUP, signal.SIGUSR1)

#: The commands whose processes live long, and handle them.
LONG_LIVED: Final = frozenset({"up", "scheduler", "worker", "web"})

#: The signals noted so far, for `SignalHandlers` to answer.
PENDING: Final[list[int]] = []


def is_long_lived(arguments: Sequence[str]) -> bool:
    """Whether these arguments ask for a process that lives long.

    >>> is_long_lived(["--config", "c.toml", "up"]), is_long_lived(["executions", "list"])
    (True, False)
    """
    rest = iter(arguments)
    for argument in rest:
        if argument == "--config":
            next(rest, None)
        elif not argument.startswith("-"):
            return argument in LONG_LIVED
    return False


def note_requests() -> None:
    """Note these signals from now on, except those that the process was started to ignore."""
    for number in REQUESTS:
        if not is_ignored(number):
            signal.signal(number, _note)


def is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def silence_full_wakeup() -> None:
    """Print no warning for each signal that comes faster than the event loop reads them.

    What the loop has to read by then wakes it all the same. Each handler that it is given turns the
    warnings on again, so this comes after. No signal may come between the two calls.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _note(number: int, _frame: FrameType | None) -> None:
    PENDING.append(number)

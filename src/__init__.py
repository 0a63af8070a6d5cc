"""A distributed cron that loses nothing.

For tasks in Python there is `App`, with what stands beside it here; for scripts `cronhare.task`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .entrypoints.python.app import App
    from .entrypoints.python.context import Cancelled, Context, Snooze
    from .entrypoints.python.handles import Handle, RunFailed
    from .entrypoints.python.tasks import Call, Task, aenqueue_many, enqueue_many
    from .entrypoints.python.words import Retry, at, cron, every
    from .task import PermanentError, RateLimited, TransientError

__all__ = [
    "App",
    "Call",
    "Cancelled",
    "Context",
    "Handle",
    "PermanentError",
    "RateLimited",
    "Retry",
    "RunFailed",
    "Snooze",
    "Task",
    "TransientError",
    "aenqueue_many",
    "at",
    "cron",
    "enqueue_many",
    "every",
]

_ROOM = "cronhare.entrypoints.python"
_HOMES = {
    "App": f"{_ROOM}.app",
    **dict.fromkeys(("Cancelled", "Context", "Snooze"), f"{_ROOM}.context"),
    **dict.fromkeys(("Handle", "RunFailed"), f"{_ROOM}.handles"),
    **dict.fromkeys(("Call", "Task", "aenqueue_many", "enqueue_many"), f"{_ROOM}.tasks"),
    **dict.fromkeys(("Retry", "at", "cron", "every"), f"{_ROOM}.words"),
    **dict.fromkeys(("PermanentError", "RateLimited", "TransientError"), "cronhare.task"),
}


def __getattr__(name: str) -> object:
    """Import what is asked for: a command, or a script, needs none of it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cronhare' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as above

    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found

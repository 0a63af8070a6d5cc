"""A distributed cron that loses nothing.

For tasks in Python there is `App`, with what stands beside it here; for scripts `cronhare.task`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .application.administration.changing.enqueue import CannotEnqueue
    from .application.administration.changing.schedules import CannotEdit, EditedMeanwhile
    from .application.administration.reading.lookup import NotFound
    from .domain.lifecycle.enqueue import KeyTaken
    from .domain.reading import Invalid
    from .entrypoints.python.app import App
    from .entrypoints.python.handles import Handle, RunFailed
    from .entrypoints.python.tasks import Call, Task, aenqueue_many, enqueue_many
    from .entrypoints.python.words import Cancelled, Context, Retry, Snooze, at, cron, every
    from .ports import LedgerUnavailable
    from .ports.claims import OtherDatabase
    from .task import PermanentError, RateLimited, TransientError

__all__ = [
    "App",
    "Call",
    "Cancelled",
    "CannotEdit",
    "CannotEnqueue",
    "Context",
    "EditedMeanwhile",
    "Handle",
    "Invalid",
    "KeyTaken",
    "LedgerUnavailable",
    "NotFound",
    "OtherDatabase",
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
_USES = "cronhare.application.administration"
_HOMES = {
    "App": f"{_ROOM}.app",
    **dict.fromkeys(("Handle", "RunFailed"), f"{_ROOM}.handles"),
    **dict.fromkeys(("Call", "Task", "aenqueue_many", "enqueue_many"), f"{_ROOM}.tasks"),
    **dict.fromkeys(
        ("Cancelled", "Context", "Retry", "Snooze", "at", "cron", "every"), f"{_ROOM}.words"
    ),
    **dict.fromkeys(("PermanentError", "RateLimited", "TransientError"), "cronhare.task"),
    "CannotEnqueue": f"{_USES}.changing.enqueue",
    **dict.fromkeys(("CannotEdit", "EditedMeanwhile"), f"{_USES}.changing.schedules"),
    "Invalid": "cronhare.domain.reading",
    "KeyTaken": "cronhare.domain.lifecycle.enqueue",
    "LedgerUnavailable": "cronhare.ports",
    "NotFound": f"{_USES}.reading.lookup",
    "OtherDatabase": "cronhare.ports.claims",
}


def __getattr__(name: str) -> object:
    """Import what is asked for: a command, or a script, needs none of it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cronhare' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as above

    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

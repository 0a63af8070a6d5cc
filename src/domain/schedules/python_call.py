"""A task that is a function of an app, and where it runs."""

import enum
from pathlib import PurePath
from typing import Final

import attrs

#: `module:attribute`, as `shop.jobs:app`.
PLACE: Final = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*\Z"

#: Bytes by which a child that is used again may grow before it is renewed, and seconds after which
#: it is.
MOST_GROWTH: Final = 64 * 1024 * 1024
MOST_AGE: Final = 3600.0


class Executor(enum.StrEnum):
    """Where a function runs; each is under a warden."""

    PROCESS = "process"  # an interpreter of its own, which imports the app
    FORK = "fork"  # a fresh child of an interpreter that has the app
    POOL = "pool"  # such children, used again: one run at a time in each
    ASYNC = "async"  # many coroutines in one child


@attrs.frozen(kw_only=True)
class PythonCall:
    """The function that an app has under a task's name.

    *app* says where the app is; its module is looked for in *folder* too. A child that is used
    again is renewed after *per_child* runs; a run that takes more than *memory* bytes is killed
    (coroutines have it for all in a child: then each is run alone). One that takes a *context* is
    told of the last success before it, which the ledger is asked for.
    """

    app: str
    executor: Executor = Executor.FORK
    per_child: int | None = None
    memory: int | None = None
    context: bool = False
    folder: PurePath | None = None

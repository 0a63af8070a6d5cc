"""Importing an app: what is told of one that fails, and whether a fork could share the rest."""

import builtins
import contextlib
import importlib
import importlib.util
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cronhare.task import TransientError

if TYPE_CHECKING:
    from .app import App

_OURS = str(Path(__file__).parents[2])
_LONGEST_TRACEBACK = 8
_THREAD = "began a thread"


class ImportFailed(TransientError):
    """An app cannot be imported; the text says where and why."""

    def __init__(self, why: str) -> None:
        super().__init__(why, code="APP_NOT_IMPORTED")  # what a worker waits after


def load(place: str) -> "App":
    """Import `MODULE:APP` and what it includes.

    Raises:
        ImportFailed: with the user's part of the traceback.
    """
    from .app import App  # noqa: PLC0415 - a module that it imports may be the user's

    name, _, attribute = place.partition(":")
    try:
        found: Any = (module := importlib.import_module(name))
        for part in attribute.split("."):
            found = getattr(found, part, None)
        if isinstance(found, App):
            found.load()
            _have_log_written()
            return found
    except (Exception, SystemExit) as error:
        where = ""
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            where = (
                f"\nIt was looked for in {Path.cwd()}, and among the libraries of {sys.prefix}: "
                "go to the folder that has it, or name that in PYTHONPATH"
            )
        raise ImportFailed(f"{place} cannot be imported\n{shortened(error)}{where}") from error
    there = [f"{name}:{each}" for each, value in vars(module).items() if isinstance(value, App)]
    known = f"there is: {', '.join(there)}" if there else "that module has none"
    raise ImportFailed(f"{place} is no App; {known}")


def _have_log_written() -> None:
    """Let the log of tasks go to stderr, unless the app has set up logging itself."""
    root = logging.getLogger()
    if not root.handlers:
        # The kind that asks for sys.stderr each time, as that may be replaced.
        handler = type(logging.lastResort)()  # type: ignore[misc]
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        root.addHandler(handler)
        root.setLevel(os.environ.get("CRON_LOG_LEVEL", "INFO").upper())


def shortened(error: BaseException) -> str:
    """Write a traceback without our frames and those of the import system, its end at most."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<frozen "))
        and Path(frame.filename).parent.name != "importlib"
    ]
    lines = traceback.format_list(frames[-_LONGEST_TRACEBACK:])
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()


class Watch:
    """Finds what a fork of this process would break, and which import began it."""

    def __init__(self, place: str) -> None:
        self._import: Callable[..., Any] = builtins.__import__
        self._sockets = _sockets()  # those that are ours
        self._by: dict[str, str] = {}
        self._importing = [place.partition(":")[0]]  # each by the one before it

    def __enter__(self) -> Self:
        builtins.__import__ = self._watched
        return self

    def __exit__(self, *_: object) -> None:
        builtins.__import__ = self._import

    def faults(self) -> list[str]:
        """Say what is there, and by whom: by the app's own module, if by none that it imports."""
        names = ", ".join(each.name for each in threading.enumerate()[1:])  # those of Python
        named = {_THREAD: f"{_THREAD} ({names})"} if names else {}
        module = self._importing[0]
        return [f"{self._by.get(what, module)} {named.get(what, what)}" for what in self._present()]

    def _watched(  # as `__import__`
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - likewise
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - likewise
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:  # noqa: ANN401 - likewise
        package = (globals or {}).get("__package__")
        full = importlib.util.resolve_name("." * level + name, package) if package else name
        known, is_new = len(sys.modules), full not in sys.modules
        if is_new:
            self._blame(self._importing[-1])  # it began that before this import
            self._importing.append(full)
        try:
            module = self._import(name, globals, locals, fromlist, level)
        finally:
            if is_new:
                self._importing.pop()
        if len(sys.modules) != known:  # else it was there
            self._blame(full)
        return module

    def _blame(self, module: str) -> None:
        for what in self._present():
            self._by.setdefault(what, module)

    def _present(self) -> Iterator[str]:
        if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - pathlib is slow
            yield _THREAD
        if _sockets() - self._sockets:
            yield "opened a socket"
        with open(f"/proc/self/task/{os.getpid()}/children") as children:  # noqa: PTH123 - likewise
            if children.read(1):
                yield "started a process"


def _sockets() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - see _present
        with contextlib.suppress(OSError):  # that of the list itself
            found.add(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115 - likewise
    return {target for target in found if target.startswith("socket:")}

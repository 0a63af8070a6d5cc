"""dependency-injector, and parts that are imported when the first of them is made.

A command that lists nodes needs neither the worker nor what lies behind it, and imports are most of
the time of whoever asks one question. What lives long imports all of them before it begins.

The library itself looks whether a web framework is installed by importing it, and can read settings
from YAML and Pydantic; ours are neither. With Starlette that were some 40 ms of each command, with
others that a user may have more.
"""

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import resolve_name
from types import SimpleNamespace
from typing import Any, Final

_STAND_INS: Final[dict[str, Any]] = {
    "pydantic_settings": SimpleNamespace(BaseSettings=SimpleNamespace),
    **dict.fromkeys(
        ("fastapi.params", "starlette.requests", "werkzeug.local", "yaml")
    ),  # not there
}

_hidden = _STAND_INS.keys() - sys.modules.keys()
sys.modules.update({name: _STAND_INS[name] for name in _hidden})
try:
    from dependency_injector import containers, providers
finally:
    for _name in _hidden:
        del sys.modules[_name]

__all__ = ["LazyPart", "containers", "imported_late", "preload", "providers"]


class Late:
    """A class or a function of another module, which is imported when it is called."""

    def __init__(self, module: str, name: str, *, is_optional: bool) -> None:
        """What *is_optional* a setting asks for: it is made before a process begins, or never."""
        self.is_optional = is_optional
        self._module = module
        self._name = name

    def found(self) -> Any:  # noqa: ANN401 - whatever it is
        return getattr(import_module(self._module), self._name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as it takes them
        return self.found()(*arguments, **options)


@contextmanager
def imported_late(importer: str, *, optional: bool = False) -> Iterator[None]:
    """Give a `Late` for each name that the module *importer* imports from another meanwhile."""
    python = builtins.__import__

    def late(
        name: str,
        in_module: Mapping[str, Any] | None = None,
        in_function: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:  # noqa: ANN401 - a module, or what passes for one
        if not names or in_module is None or in_module["__name__"] != importer:
            return python(name, in_module, in_function, names or (), level)
        module = resolve_name("." * level + name, in_module["__package__"])
        found = {each: Late(module, each, is_optional=optional) for each in names}
        return SimpleNamespace(**found)

    builtins.__import__ = late  # type: ignore[assignment]  # Python names no argument
    try:
        yield
    finally:
        builtins.__import__ = python


class LazyPart:
    """A part that is made when something is first asked of it.

    Whoever answers many questions has parts of which each question needs but some.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the part has
        return getattr(self._make(), name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._make())


def preload(parts: Iterable[providers.Provider[Any]]) -> None:
    """Import what these parts, and all behind them, are made of: for a process that lives long."""
    waiting, seen = [*parts], set[int]()
    while waiting:
        part = waiting.pop()
        made = getattr(part, "provides", None)
        if id(part) in seen or (isinstance(made, Late) and made.is_optional):
            continue
        seen.add(id(part))
        if isinstance(made, Late):
            made.found()
        waiting.extend(part.related)

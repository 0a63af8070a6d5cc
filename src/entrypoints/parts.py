"""dependency-injector, and parts that are imported when they are made.

A command that lists nodes needs neither the worker nor what lies behind it, and imports are most of
the time of whoever asks one question. What lives long imports all of them before it begins.
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

#: What the library imports where it is installed, and has no use for here: 0.2 s of each command.
_UNUSED: Final[dict[str, Any]] = {
    "pydantic_settings": SimpleNamespace(BaseSettings=SimpleNamespace),
    **dict.fromkeys(("fastapi", "starlette", "werkzeug", "yaml")),  # as if they were not there
}

_hidden = _UNUSED.keys() - sys.modules.keys()
sys.modules.update({name: _UNUSED[name] for name in _hidden})
try:
    from dependency_injector import containers, providers
finally:
    for _name in _hidden:
        del sys.modules[_name]

__all__ = ["Part", "containers", "each", "one", "preload", "providers"]


class Part:
    """A class or a function, `module:name`, whose module is imported when it is called."""

    def __init__(self, place: str) -> None:
        self.place = place

    def found(self) -> Any:  # noqa: ANN401 - whatever it is
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as it takes them
        return self.found()(*arguments, **options)


def one(place: str, *arguments: Any, **options: Any) -> providers.Singleton[Any]:  # noqa: ANN401
    return providers.ThreadSafeSingleton(Part(place), *arguments, **options)


def each(place: str, *arguments: Any, **options: Any) -> providers.Factory[Any]:  # noqa: ANN401
    return providers.Factory(Part(place), *arguments, **options)


def preload(parts: Iterable[providers.Provider[Any]]) -> None:
    """Import what these parts, and all behind them, are made of, as the settings choose."""
    waiting, seen = list[Any](parts), set[Any]()
    while waiting:
        part = waiting.pop()
        if part in seen:
            continue
        seen.add(part)
        if isinstance(part, providers.Selector):
            waiting.append(part.providers[part.selector()])  # type: ignore[misc] # it has one
            continue
        if isinstance(made := getattr(part, "provides", None), Part):
            made.found()
        waiting.extend(part.related)

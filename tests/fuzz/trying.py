"""Trying the entries of boundaries, one after the other, and counting their answers."""

import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Self

import attrs

from tests.fuzz.corpus import Answer, AnyBoundary, Entry, Mishandled, Place

Opened = Callable[[], AbstractContextManager[Place]]


def boundaries() -> list[AnyBoundary]:
    """Find the boundaries: what is called so in the modules beside this one."""
    names = [found.name for found in iter_modules([str(Path(__file__).parent)])]
    modules = [import_module(f"tests.fuzz.{name}") for name in names if not name.startswith("_")]
    return [module.BOUNDARY for module in modules if hasattr(module, "BOUNDARY")]


@attrs.define
class Figures:
    """What was answered at a boundary; *mishandled* has the names, and what happened."""

    boundary: str
    answers: Counter[Answer] = attrs.field(factory=Counter)
    mishandled: list[tuple[str, str]] = attrs.field(factory=list)

    def __str__(self) -> str:
        handled, refused = self.answers[Answer.HANDLED], self.answers[Answer.REFUSED]
        wrong = len(self.mishandled)
        tried = handled + refused + wrong
        return (
            f"{self.boundary}: tried {tried}, handled {handled}, refused {refused}, "
            f"mishandled {wrong}"
        )


@attrs.frozen(kw_only=True)
class Choice:
    """Which entries: the short form, those whose name has *only* in it, how many by chance."""

    short: bool = False
    only: str = ""
    by_chance: int = 0
    seed: int = 0

    def of(self, boundary: AnyBoundary) -> Iterator[Entry[Any]]:
        """Give a boundary's entries."""
        for entry in boundary.entries:
            if (entry.short or not self.short) and self.only in entry.name:
                yield entry
        if boundary.by_chance and not self.short:
            random_fraction = random.Random(f"{self.seed} {boundary.name}")
            for _ in range(self.by_chance):
                yield boundary.by_chance(random_fraction)


def attempt(
    chosen: Sequence[AnyBoundary], choice: Choice, place: Opened, *, tell: Callable[[str], None]
) -> list[Figures]:
    """Try what was chosen; those at the same site follow each other there."""
    every = []
    for site in dict.fromkeys(boundary.at for boundary in chosen):
        with _Ground(site, place) as ground:
            for boundary in chosen:
                if boundary.at == site:
                    every.append(_at(boundary, choice, ground, tell))
                    tell(str(every[-1]))
    return every


def _at(
    boundary: AnyBoundary, choice: Choice, ground: "_Ground", tell: Callable[[str], None]
) -> Figures:
    figures = Figures(boundary.name)
    for entry in choice.of(boundary):
        site = ground.site()
        try:
            answer = entry.attempt(site)
            site.innocent()
        except Exception as error:  # noqa: BLE001 - whatever happens is a finding, and others follow
            figures.mishandled.append((entry.name, _said(error)))
            tell(f"  mishandled: {entry.name}: {_said(error)}")
            ground.leave(error)
        else:
            figures.answers[answer] += 1
    return figures


def _said(error: Exception) -> str:
    if isinstance(error, Mishandled | TimeoutError):
        return str(error)
    return "".join(traceback.format_exception(error))


class _Ground:
    """One site for all entries, to save its starts; another one once something was mishandled."""

    def __init__(
        self, open_site: Callable[[Place], AbstractContextManager[Any]], place: Opened
    ) -> None:
        self._open_site = open_site
        self._place = place
        self._stack = ExitStack()
        self._site: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def site(self) -> Any:  # noqa: ANN401 - whatever the boundary's entries are tried at
        """Give the site, open."""
        if self._site is None:
            place = self._stack.enter_context(self._place())
            self._site = self._stack.enter_context(self._open_site(place))
        return self._site

    def leave(self, error: Exception) -> None:
        """Give the site up, as it is: nobody waits for its good end."""
        self._site = None
        with suppress(Exception):
            self._stack.__exit__(type(error), error, error.__traceback__)
        self._stack = ExitStack()

"""Exchanges: which queues a message reaches."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache

import attrs

from cronhare.domain.topology import Binding, Exchange

_ROUTES_REMEMBERED = 4096

Matches = Callable[[str], bool]


def topic(pattern: str) -> Matches:
    """Compile a topic pattern: `*` is one word, `#` any number of words, none included.

    >>> topic("report.*.#")("report.sales")
    True
    >>> topic("report.*.#")("report")
    False
    """
    # Every word, the last one too, is closed by a dot, so that `#` may stand for nothing.
    forms = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    words = _words(pattern)
    regex = re.compile("".join(forms.get(word, re.escape(word) + r"\.") for word in words))
    return lambda key: regex.fullmatch(f"{key}." if key else "") is not None


def _words(pattern: str) -> Iterator[str]:
    previous = None
    for word in pattern.split(".") if pattern else ():
        if word != "#" or previous != "#":  # "#.#" says no more than "#", but costs a search
            yield word
        previous = word


def _direct(pattern: str) -> Matches:
    return lambda key: key == pattern


def _fanout(_pattern: str) -> Matches:
    return lambda _key: True


#: The types of exchange, and how each reads the key of a binding.
KINDS = {"direct": _direct, "topic": topic, "fanout": _fanout}


@attrs.frozen
class _Route:
    matches: Matches
    binding: Binding


@attrs.frozen
class _Node:
    exchange: Exchange
    routes: list[_Route] = attrs.field(factory=list[_Route])


class Router:
    """All exchanges with their bindings, the default exchange excepted.

    Routes are remembered until the next declaration: a busy broker asks for the same few.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._bindings: set[Binding] = set()
        self._remembered = lru_cache(_ROUTES_REMEMBERED)(self._walk)

    def add_exchange(self, exchange: Exchange) -> None:
        """Add an exchange; one that is known already stays with its bindings."""
        self._nodes.setdefault(exchange.name, _Node(exchange))
        self._remembered.cache_clear()

    def bind(self, binding: Binding) -> None:
        """Add a road. Its source must be known; a road that is there already is not doubled."""
        if binding in self._bindings:
            return
        node = self._nodes[binding.source]
        node.routes.append(_Route(KINDS[node.exchange.kind](binding.key), binding))
        self._bindings.add(binding)
        self._remembered.cache_clear()

    def queues(self, exchange: str, key: str) -> tuple[str, ...]:
        """Name the queues that a message reaches, each once; an unknown exchange reaches none."""
        return self._remembered(exchange, key) if exchange else (key,)

    def _walk(self, exchange: str, key: str) -> tuple[str, ...]:
        reached: dict[str, None] = {}
        seen = {exchange}
        ahead = deque([exchange])
        while ahead:
            queues, exchanges = self._one_hop(ahead.popleft(), key)
            reached.update(dict.fromkeys(queues))
            ahead.extend(name for name in exchanges if name not in seen)
            seen.update(exchanges)
        return tuple(reached)

    def _one_hop(self, name: str, key: str) -> tuple[list[str], list[str]]:
        node = self._nodes.get(name)
        if node is None:
            return [], []
        taken = [route.binding for route in node.routes if route.matches(key)]
        if not taken and node.exchange.alternate:
            return [], [node.exchange.alternate]
        return (
            [binding.target for binding in taken if not binding.to_exchange],
            list(dict.fromkeys(binding.target for binding in taken if binding.to_exchange)),
        )

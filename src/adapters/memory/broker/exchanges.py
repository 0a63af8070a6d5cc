"""Exchanges: which queues a message reaches."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache

from cronhare.domain.topology import Binding, Exchange

_ROUTES_CACHED = 4096

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
        if word != "#" or previous != "#":  # "#.#" means "#", but costs a search
            yield word
        previous = word


#: The types of exchange, and how each compiles the key of a binding.
KINDS: dict[str, Callable[[str], Matches]] = {
    "direct": lambda pattern: lambda key: key == pattern,
    "topic": topic,
    "fanout": lambda _pattern: lambda _key: True,
    # By the headers that a broker adds at a delivery limit: this one has none.
    "headers": lambda _pattern: lambda _key: False,
}


class Router:
    """All exchanges with their bindings, the default exchange excepted.

    Routes are cached until the next declaration, as a busy broker asks for the same few.
    """

    def __init__(self) -> None:
        self._exchanges: dict[str, Exchange] = {}
        self._bindings: dict[str, dict[Binding, Matches]] = {}  # by source
        self._cached = lru_cache(_ROUTES_CACHED)(self._walk)

    def add_exchange(self, exchange: Exchange) -> None:
        """Add an exchange; one that is known already stays with its bindings."""
        self._exchanges.setdefault(exchange.name, exchange)
        self._bindings.setdefault(exchange.name, {})
        self._cached.cache_clear()

    def bind(self, binding: Binding) -> None:
        """Add a binding, once however often it is declared. Its source must be known."""
        kind = self._exchanges[binding.source].kind
        self._bindings[binding.source].setdefault(binding, KINDS[kind](binding.key))
        self._cached.cache_clear()

    def queues(self, exchange: str, key: str) -> tuple[str, ...]:
        """Name the queues that a message reaches, each once; none for an unknown exchange."""
        return self._cached(exchange, key) if exchange else (key,)

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
        exchange = self._exchanges.get(name)
        if exchange is None:
            return [], []
        taken = [binding for binding, matches in self._bindings[name].items() if matches(key)]
        if not taken and exchange.alternate:
            return [], [exchange.alternate]
        return (
            [binding.target for binding in taken if not binding.to_exchange],
            list(dict.fromkeys(binding.target for binding in taken if binding.to_exchange)),
        )

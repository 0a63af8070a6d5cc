"""The declared exchanges, queues and bindings."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs

from cronhare.domain.topology import Binding, Exchange, Queue, Topology

from .exchanges import KINDS, Router
from .queues import MemoryQueue

_Named = TypeVar("_Named", Exchange, Queue)


class DeclaredTopology:
    """All exchanges and queues. They stay as they were declared first."""

    def __init__(self) -> None:
        self.queues: dict[str, MemoryQueue] = {}
        self._exchanges: dict[str, Exchange] = {}
        self._router = Router()
        self._timed: list[MemoryQueue] = []

    def add(self, topology: Topology) -> None:
        """Add all that is missing.

        Raises:
            ValueError: something is declared with other arguments, an exchange is of a type that
                needs a plugin, or a binding has an unknown end; nothing was added.
        """
        exchanges = _merged(self._exchanges, topology.exchanges)
        specs = {name: queue.spec for name, queue in self.queues.items()}
        specs = _merged(specs, topology.queues)
        for exchange in topology.exchanges:
            if exchange.kind not in KINDS:
                kinds = " or ".join(KINDS)
                raise ValueError(f"exchange {exchange.name}: type {exchange.kind}, not {kinds}")
        for binding in topology.bindings:
            _check_ends(binding, exchanges, specs)
        self._exchanges = exchanges
        for exchange in exchanges.values():
            self._router.add_exchange(exchange)
        for spec in specs.values():
            if spec.name not in self.queues:
                self.queues[spec.name] = MemoryQueue(spec)
        self._timed = [queue for queue in self.queues.values() if queue.spec.ttl is not None]
        for binding in topology.bindings:
            self._router.bind(binding)

    def route(self, exchange: str, key: str) -> list[MemoryQueue]:
        """Find the queues that a message reaches."""
        names = self._router.queues(exchange, key)
        return [queue for name in names if (queue := self.queues.get(name)) is not None]

    def next_to_expire(self) -> tuple[int, MemoryQueue] | None:
        """Find the queue whose head expires first, and when."""
        first: tuple[int, MemoryQueue] | None = None
        for queue in self._timed:
            if queue.ready:  # first, as this is hot and most are empty
                expires = queue.ready[0].expires  # no later message expires before the head
                if expires is not None and (first is None or expires < first[0]):
                    first = expires, queue
        return first


def _merged(known: Mapping[str, _Named], wanted: Iterable[_Named]) -> dict[str, _Named]:
    merged = dict(known)
    for item in wanted:
        there = merged.setdefault(item.name, item)
        if there != item:
            kind = type(item).__name__.lower()
            raise ValueError(f"{kind} {item.name} is declared with {_difference(there, item)}")
    return merged


def _difference(there: _Named, wanted: _Named) -> str:
    return ", ".join(
        f"{field.name} {old}, not {new}"
        for field in attrs.fields(type(there))
        if (old := getattr(there, field.name)) != (new := getattr(wanted, field.name))
    )


def _check_ends(
    binding: Binding, exchanges: Mapping[str, Exchange], queues: Mapping[str, Queue]
) -> None:
    if binding.source not in exchanges:
        raise ValueError(f"binding from exchange {binding.source}, which is not declared")
    kind, targets = ("exchange", exchanges) if binding.to_exchange else ("queue", queues)
    if binding.target not in targets:
        raise ValueError(f"binding to {kind} {binding.target}, which is not declared")

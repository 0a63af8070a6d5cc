"""The rules of declaring: what is missing is made, and what exists is never changed.

Nothing is deleted or changed. What exists with other arguments is used as it is, and the
difference is reported with its cure: arguments cannot be changed once a queue is declared. A queue
that the broker refuses is left out, and the others are used without it.

No I/O here: a generator gives the steps to both clients, and takes the broker's refusals.
"""

import logging
from collections.abc import Generator

import attrs
from pika.spec import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, RESOURCE_LOCKED

from cronhare.application.logs import say
from cronhare.domain.topology import Binding, Exchange, Queue, Topology
from cronhare.ports.broker import BrokerUnavailable

from .guide import guide
from .steps import MOST_LOST, Bind, ConnectionLosses, Declare, PassiveDeclare, Refused, Step

log = logging.getLogger(__name__)

#: A passive declaration's refusal of what is missing, or exclusive to another connection.
_NOT_OURS = (NOT_FOUND, RESOURCE_LOCKED)

#: What is said of a queue that is missing and was not declared.
_NOT_TRIED = f"it is missing, and {MOST_LOST} others, tried before it, cost the connection each"


@attrs.frozen(kw_only=True)
class Difference:
    """Something that exists otherwise than we would declare it. It is used as it is."""

    kind: str  # queue | exchange
    name: str
    what: str  # the broker's own words
    cure: str

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.name} is not as declared ({self.what}). To change it: {self.cure}"
        )


@attrs.frozen(kw_only=True)
class Refusal:
    """A queue that is missing and cannot be made, is another connection's own, or is unbound."""

    name: str
    what: str  # the broker's own words

    def __str__(self) -> str:
        return f"queue {self.name}: {self.what}"


@attrs.frozen(kw_only=True)
class Declared:
    """What a declaration found otherwise than it would have it."""

    differences: tuple[Difference, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    def check(self) -> None:
        """Make sure that no queue was refused.

        Raises:
            BrokerUnavailable: it names those that were.
        """
        if self.refusals:
            raise BrokerUnavailable("; ".join(map(str, self.refusals)))


#: Gives the next step, and takes the broker's refusal, or None.
Steps = Generator[Step, Refused | None, None]


def declaration(
    topology: Topology, *, vhost: str, losses: ConnectionLosses
) -> Generator[Step | Declared, Refused | None, None]:
    """Give the steps that declare a topology, and at the end what they found.

    Raises:
        BrokerUnavailable: the broker will not let us make an exchange that is missing.
    """
    declaring = _Declaring(vhost, losses)
    for thing in topology.things:
        yield from declaring.ensure(thing)
    for binding in topology.bindings:
        yield from declaring.bind(binding)
    yield Declared(
        differences=tuple(declaring.differences), refusals=tuple(declaring.refusals.values())
    )


class _Declaring:
    """What one pass through the topology has made, and what it found otherwise."""

    def __init__(self, vhost: str, losses: ConnectionLosses) -> None:
        self.differences: list[Difference] = []
        self.refusals: dict[str, Refusal] = {}  # by queue
        self._vhost = vhost
        self._losses = losses

    def ensure(self, thing: Exchange | Queue) -> Steps:
        """Look first: who may not configure the broker may still use what is there."""
        absence = yield PassiveDeclare(thing)
        is_lost = absence is not None and absence.costs_connection
        is_missing = absence is not None and not is_lost and absence.code in _NOT_OURS
        if is_missing and isinstance(thing, Queue) and not self._losses.within_limit:
            self._refuse(thing.name, _NOT_TRIED)
            return
        refusal = absence if is_lost else (yield Declare(thing))
        if refusal is None:
            return
        kind = "queue" if isinstance(thing, Queue) else "exchange"
        if not (is_lost or is_missing):
            self._note(kind, thing.name, refusal)
        elif isinstance(thing, Queue):
            self._refuse(thing.name, refusal.text)
        else:
            raise BrokerUnavailable(f"{kind} {thing.name}: {refusal.text}") from refusal.cause

    def bind(self, binding: Binding) -> Steps:
        """Make sure of a binding; the broker does not double one."""
        if binding.target in self.refusals:
            return
        refusal = yield Bind(binding)
        if refusal is not None and refusal.code == ACCESS_REFUSED:
            text = f"Cannot see whether {binding.source} leads to {binding.target}"
            say(log, logging.WARNING, "topology.unseen", text)
        elif refusal is not None and binding.to_exchange:
            where = f"binding {binding.source} to {binding.target}"
            raise BrokerUnavailable(f"{where}: {refusal.text}") from refusal.cause
        elif refusal is not None:  # the queue was deleted meanwhile
            self._refuse(binding.target, refusal.text)

    def _note(self, kind: str, name: str, refusal: Refused) -> None:
        """Note other arguments. Who may not configure the broker cannot know of them."""
        if refusal.code == PRECONDITION_FAILED:
            cure = self._cure(kind, name)
            self.differences.append(Difference(kind=kind, name=name, what=refusal.text, cure=cure))

    def _refuse(self, queue: str, what: str) -> None:
        self.refusals[queue] = Refusal(name=queue, what=what)

    def _cure(self, kind: str, name: str) -> str:
        again = "start a scheduler or worker, which declares it anew"
        if kind == "queue":
            delete = guide(self._vhost).delete(name)
            return f"stop what uses it, let it run empty, {delete}, then {again}"
        return f"stop what uses it, delete the exchange, then {again}"

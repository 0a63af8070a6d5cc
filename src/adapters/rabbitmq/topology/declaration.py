"""Making sure that the queues, exchanges and roads are there, without ever harming what is.

Nothing is deleted or changed. What exists with other arguments is used as it is, and the
difference is told with its cure: arguments cannot be changed once a queue is declared. A queue that
the broker will not let us have is left out: the others are worth having without it.

No I/O here: both clients ask what is to be asked, and tell what came of it.
"""

import logging
from collections.abc import Generator

import attrs

from cronhare.application.logs import say
from cronhare.domain.topology import Binding, Exchange, Queue, Topology
from cronhare.ports.broker import BrokerUnavailable

from ..wire.asking import (
    ACCESS_REFUSED,
    LOCKED,
    MOST_LOST,
    NOT_FOUND,
    PRECONDITION_FAILED,
    Bind,
    Look,
    Losses,
    Make,
    Question,
    Refused,
)

log = logging.getLogger(__name__)

#: What a look says of what is missing, or exclusive to another connection.
_NOT_OURS = (NOT_FOUND, LOCKED)

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
    """A queue that is missing and cannot be made, that is somebody's own, or that has no road."""

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


#: Gives what is to be asked next, and takes the broker's no, or None.
Asking = Generator[Question, Refused | None, None]


def declaration(
    topology: Topology, *, vhost: str, losses: Losses
) -> Generator[Question | Declared, Refused | None, None]:
    """Ask for all that is not there yet; at the end tell what was otherwise, or refused.

    Raises:
        BrokerUnavailable: the broker will not let us make an exchange that is missing.
    """
    declaring = _Declaring(vhost, losses)
    for thing in topology.things:
        yield from declaring.ensure(thing)
    for binding in topology.bindings:
        yield from declaring.bind(binding)
    yield declaring.result()


class _Declaring:
    """What one walk through the topology has made, and what it found otherwise."""

    def __init__(self, vhost: str, losses: Losses) -> None:
        self._differences: list[Difference] = []
        self._refusals: dict[str, Refusal] = {}  # by queue
        self._vhost = vhost
        self._losses = losses

    def result(self) -> Declared:
        """Tell what it was."""
        return Declared(
            differences=tuple(self._differences), refusals=tuple(self._refusals.values())
        )

    def ensure(self, thing: Exchange | Queue) -> Asking:
        """Look first: who may not configure the broker may still use what is there."""
        looked = yield Look(thing)
        is_lost = looked is not None and looked.costs_connection
        is_missing = looked is not None and not is_lost and looked.code in _NOT_OURS
        if is_missing and isinstance(thing, Queue) and not self._losses.are_bearable:
            self._refuse(thing.name, _NOT_TRIED)
            return
        refusal = looked if is_lost else (yield Make(thing))
        if refusal is None:
            return
        kind = "queue" if isinstance(thing, Queue) else "exchange"
        if not (is_lost or is_missing):
            self._note(kind, thing.name, refusal)
        elif isinstance(thing, Queue):
            self._refuse(thing.name, refusal.text)
        else:
            raise BrokerUnavailable(f"{kind} {thing.name}: {refusal.text}") from refusal.cause

    def bind(self, binding: Binding) -> Asking:
        """Make sure of a road; the broker does not double one."""
        if binding.target in self._refusals:
            return
        refusal = yield Bind(binding)
        if refusal is not None and refusal.code == ACCESS_REFUSED:
            text = f"Cannot see whether {binding.source} leads to {binding.target}"
            say(log, logging.WARNING, "topology.unseen", text)
        elif refusal is not None and binding.to_exchange:
            road = f"binding {binding.source} to {binding.target}"
            raise BrokerUnavailable(f"{road}: {refusal.text}") from refusal.cause
        elif refusal is not None:  # somebody deletes it while we declare
            self._refuse(binding.target, refusal.text)

    def _note(self, kind: str, name: str, refusal: Refused) -> None:
        """Note what is there with other arguments. Who may not configure it cannot know."""
        if refusal.code == PRECONDITION_FAILED:
            cure = self._cure(kind, name)
            self._differences.append(Difference(kind=kind, name=name, what=refusal.text, cure=cure))

    def _refuse(self, queue: str, what: str) -> None:
        self._refusals[queue] = Refusal(name=queue, what=what)

    def _cure(self, kind: str, name: str) -> str:
        again = "start a scheduler or worker, which declares it anew"
        if kind == "queue":
            delete = f"rabbitmqctl delete_queue --vhost {self._vhost} {name} --if-empty"
            return f"stop what uses it, let it run empty, `{delete}`, then {again}"
        return f"stop what uses it, delete the exchange, then {again}"

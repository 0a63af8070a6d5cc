"""Making sure that the queues, exchanges and roads are there, without ever harming what is.

Nothing is deleted or changed. What exists with other arguments is used as it is, and the
difference is told with its cure: arguments cannot be changed once a queue is declared. A queue that
the broker will not let us have is left out: the others are worth having without it.
"""

import logging
from functools import partial

import attrs
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from cronhare.application.logs import say
from cronhare.domain.topology import Binding, Exchange, Queue, Topology
from cronhare.ports.broker import BrokerUnavailable

from .address import Address
from .blocking import (
    ACCESS_REFUSED,
    LOCKED,
    MOST_LOST,
    NOT_FOUND,
    PRECONDITION_FAILED,
    Walk,
    connect,
)
from .trouble import TROUBLE, unconnected
from .versions import QUORUM, arguments

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


def declare(
    address: Address,
    topology: Topology,
    *,
    queue_type: str = QUORUM,
    deduplication: bool = False,
) -> Declared:
    """Declare all that is not there yet, and tell what is there with other arguments, or refused.

    It takes a connection of its own, some 60 short round trips, and can be repeated at any time.
    A queue that the broker fails over costs another connection, and is left out as well.

    Raises:
        BrokerUnavailable: the broker is away, or will not let us make an exchange that is missing.
    """
    arguments_of = partial(arguments, queue_type=queue_type, deduplication=deduplication)
    try:
        with Walk(partial(connect, address, name="cronhare declaring"), arguments_of) as walk:
            declaring = _Declaring(walk, address.vhost)
            for thing in topology.things:
                declaring.ensure(thing)
            for binding in topology.bindings:
                declaring.bind(binding)
            return declaring.result()
    except TROUBLE as error:
        raise BrokerUnavailable(f"declaring at {address}: {unconnected(error)}") from error


class _Declaring:
    """What one walk through the topology has made, and what it found otherwise."""

    def __init__(self, walk: Walk, vhost: str) -> None:
        self._differences: list[Difference] = []
        self._refusals: dict[str, Refusal] = {}  # by queue
        self._walk = walk
        self._vhost = vhost

    def result(self) -> Declared:
        """Tell what it was."""
        return Declared(
            differences=tuple(self._differences), refusals=tuple(self._refusals.values())
        )

    def ensure(self, thing: Exchange | Queue) -> None:
        """Look first: who may not configure the broker may still use what is there."""
        kind = "queue" if isinstance(thing, Queue) else "exchange"
        looked = self._walk.look_at(thing)
        is_lost = isinstance(looked, ConnectionClosedByBroker)
        is_refused = is_lost or (
            isinstance(looked, ChannelClosedByBroker) and looked.reply_code in _NOT_OURS
        )
        if is_refused and not is_lost and isinstance(thing, Queue) and not self._walk.can_lose:
            self._refuse(thing.name, _NOT_TRIED)
            return
        refusal = looked if is_lost else self._walk.declare(thing)
        if refusal is None:
            return
        if is_refused and isinstance(thing, Queue):
            self._refuse(thing.name, refusal.reply_text)
        elif is_refused:
            raise BrokerUnavailable(f"{kind} {thing.name}: {refusal.reply_text}") from refusal
        elif refusal.reply_code == PRECONDITION_FAILED:
            cure = self._cure(kind, thing.name)
            self._differences.append(
                Difference(kind=kind, name=thing.name, what=refusal.reply_text, cure=cure)
            )

    def bind(self, binding: Binding) -> None:
        """Make sure of a road; the broker does not double one."""
        if binding.target in self._refusals:
            return

        def act(channel: BlockingChannel) -> None:
            if binding.to_exchange:
                channel.exchange_bind(binding.target, binding.source, binding.key)
            else:
                channel.queue_bind(binding.target, binding.source, binding.key)

        refusal = self._walk.ask(act)
        if refusal is not None and refusal.reply_code == ACCESS_REFUSED:
            text = f"Cannot see whether {binding.source} leads to {binding.target}"
            say(log, logging.WARNING, "topology.unseen", text)
        elif refusal is not None and binding.to_exchange:
            road = f"binding {binding.source} to {binding.target}"
            raise BrokerUnavailable(f"{road}: {refusal.reply_text}") from refusal
        elif refusal is not None:  # somebody deletes it while we declare
            self._refuse(binding.target, refusal.reply_text)

    def _refuse(self, queue: str, what: str) -> None:
        self._refusals[queue] = Refusal(name=queue, what=what)

    def _cure(self, kind: str, name: str) -> str:
        again = "start a scheduler or worker, which declares it anew"
        if kind == "queue":
            delete = f"rabbitmqctl delete_queue --vhost {self._vhost} {name} --if-empty"
            return f"stop what uses it, let it run empty, `{delete}`, then {again}"
        return f"stop what uses it, delete the exchange, then {again}"

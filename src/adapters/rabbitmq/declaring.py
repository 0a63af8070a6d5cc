"""Making sure that the queues, exchanges and roads are there, without ever harming what is.

Nothing is deleted or changed. What exists with other arguments is used as it is, and the
difference is told with its cure: arguments cannot be changed once a queue is declared.
"""

import logging
from functools import partial

import attrs
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from cronhare.domain.topology import Binding, Exchange, Queue, Topology
from cronhare.ports.broker import BrokerUnavailable

from .address import Address
from .blocking import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, Walk, opened
from .trouble import TROUBLE, said_by
from .versions import QUORUM, arguments

log = logging.getLogger(__name__)


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


def declare(
    address: Address,
    topology: Topology,
    *,
    queue_type: str = QUORUM,
    deduplication: bool = False,
) -> tuple[Difference, ...]:
    """Declare all that is not there yet, and tell what is there with other arguments.

    It takes a connection of its own, some 60 short round trips, and can be repeated at any time.

    Raises:
        BrokerUnavailable: the broker is away, or will not let us make something that is missing.
    """
    arguments_of = partial(arguments, queue_type=queue_type, deduplication=deduplication)
    try:
        with opened(address, name="cronhare declaring") as connection:
            declaring = _Declaring(Walk(connection, arguments_of), address.vhost)
            for thing in topology.things:
                declaring.ensure(thing)
            for binding in topology.bindings:
                declaring.bind(binding)
            return tuple(declaring.differences)
    except TROUBLE as error:
        raise BrokerUnavailable(f"declaring at {address}: {said_by(error)}") from error


class _Declaring:
    """What one walk through the topology has made, and what it found otherwise."""

    def __init__(self, walk: Walk, vhost: str) -> None:
        self.differences: list[Difference] = []
        self._walk = walk
        self._vhost = vhost

    def ensure(self, thing: Exchange | Queue) -> None:
        """Look first: who may not configure the broker may still use what is there."""
        kind = "queue" if isinstance(thing, Queue) else "exchange"
        looked = self._walk.look_at(thing)
        missing = isinstance(looked, ChannelClosedByBroker) and looked.reply_code == NOT_FOUND
        refusal = self._walk.declare(thing)
        if refusal is None:
            return
        if missing:
            raise BrokerUnavailable(f"{kind} {thing.name}: {refusal.reply_text}") from refusal
        if refusal.reply_code == PRECONDITION_FAILED:
            cure = self._cure(kind, thing.name)
            self.differences.append(
                Difference(kind=kind, name=thing.name, what=refusal.reply_text, cure=cure)
            )

    def bind(self, binding: Binding) -> None:
        """Make sure of a road; the broker does not double one."""

        def act(channel: BlockingChannel) -> None:
            if binding.to_exchange:
                channel.exchange_bind(binding.target, binding.source, binding.key)
            else:
                channel.queue_bind(binding.target, binding.source, binding.key)

        refusal = self._walk.ask(act)
        if refusal is not None and refusal.reply_code == ACCESS_REFUSED:
            log.warning("Cannot see whether %s leads to %s", binding.source, binding.target)
        elif refusal is not None:
            road = f"binding {binding.source} to {binding.target}"
            raise BrokerUnavailable(f"{road}: {refusal.reply_text}") from refusal

    def _cure(self, kind: str, name: str) -> str:
        again = "start a scheduler or worker, which declares it anew"
        if kind == "queue":
            delete = f"rabbitmqctl delete_queue --vhost {self._vhost} {name} --if-empty"
            return f"stop what uses it, let it run empty, `{delete}`, then {again}"
        return f"stop what uses it, delete the exchange, then {again}"

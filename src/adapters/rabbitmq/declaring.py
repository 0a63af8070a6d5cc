"""Making sure that the queues, exchanges and roads are there, without ever harming what is.

Nothing is deleted or changed. What exists with other arguments is used as it is, and the
difference is told with its cure: arguments cannot be changed once a queue is declared.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import attrs
from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from cronhare.domain.topology import Binding, Exchange, Queue, Topology
from cronhare.ports.broker import BrokerUnavailable

from .address import Address
from .trouble import TROUBLE
from .versions import QUORUM, arguments

log = logging.getLogger(__name__)

_NOT_FOUND = 404
_ACCESS_REFUSED = 403
_PRECONDITION_FAILED = 406

Declare = Callable[[BlockingChannel], object]


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
    with _connection(address) as connection:
        declaring = _Declaring(connection, address.vhost)
        for exchange in topology.exchanges:
            declaring.exchange(exchange)
        for queue in topology.queues:
            wanted = arguments(queue, queue_type=queue_type, deduplication=deduplication)
            declaring.queue(queue, wanted)
        for binding in topology.bindings:
            declaring.binding(binding)
        return tuple(declaring.differences)


@contextmanager
def _connection(address: Address) -> Iterator[BlockingConnection]:
    doing = f"declaring at {address}"
    try:
        parameters = address.for_pika(name="cronhare declaring")
        connection = BlockingConnection(parameters)
        try:
            yield connection
        finally:
            with suppress(*TROUBLE):
                connection.close()
    except TROUBLE as error:
        raise BrokerUnavailable(f"{doing}: {error!r}") from error


class _Declaring:
    """One walk through the topology. A channel that the broker closes costs that object alone."""

    def __init__(self, connection: BlockingConnection, vhost: str) -> None:
        self.differences: list[Difference] = []
        self._connection = connection
        self._vhost = vhost
        self._channel: BlockingChannel | None = None

    def exchange(self, exchange: Exchange) -> None:
        """Make sure of an exchange."""
        alternate = {} if exchange.alternate is None else {"alternate-exchange": exchange.alternate}
        self._ensure(
            "exchange",
            exchange.name,
            passive=lambda channel: channel.exchange_declare(exchange.name, passive=True),
            active=lambda channel: channel.exchange_declare(
                exchange.name, exchange.kind, durable=True, arguments=alternate
            ),
        )

    def queue(self, queue: Queue, wanted: dict[str, object]) -> None:
        """Make sure of a queue."""
        self._ensure(
            "queue",
            queue.name,
            passive=lambda channel: channel.queue_declare(queue.name, passive=True),
            active=lambda channel: channel.queue_declare(
                queue.name, durable=True, arguments=wanted
            ),
        )

    def binding(self, binding: Binding) -> None:
        """Make sure of a road; the broker does not double one."""

        def bind(channel: BlockingChannel) -> None:
            if binding.to_exchange:
                channel.exchange_bind(binding.target, binding.source, binding.key)
            else:
                channel.queue_bind(binding.target, binding.source, binding.key)

        refusal = self._try(bind)
        if refusal is not None and refusal.reply_code == _ACCESS_REFUSED:
            log.warning("Cannot see whether %s leads to %s", binding.source, binding.target)
        elif refusal is not None:
            road = f"binding {binding.source} to {binding.target}"
            raise BrokerUnavailable(f"{road}: {refusal.reply_text}") from refusal

    def _ensure(self, kind: str, name: str, *, passive: Declare, active: Declare) -> None:
        """Look first: who may not configure the broker may still use what is there."""
        looked = self._try(passive)
        missing = looked is not None and looked.reply_code == _NOT_FOUND
        refusal = self._try(active)
        if refusal is None:
            return
        if missing:
            raise BrokerUnavailable(f"{kind} {name}: {refusal.reply_text}") from refusal
        if refusal.reply_code == _PRECONDITION_FAILED:
            cure = self._cure(kind, name)
            self.differences.append(
                Difference(kind=kind, name=name, what=refusal.reply_text, cure=cure)
            )

    def _try(self, act: Declare) -> ChannelClosedByBroker | None:
        """Act, and answer the broker's refusal, which has cost the channel."""
        try:
            if self._channel is None or not self._channel.is_open:
                self._channel = self._connection.channel()
            act(self._channel)
        except ChannelClosedByBroker as refusal:
            return refusal
        return None

    def _cure(self, kind: str, name: str) -> str:
        again = "start a scheduler or worker, which declares it anew"
        if kind == "queue":
            delete = f"rabbitmqctl delete_queue --vhost {self._vhost} {name} --if-empty"
            return f"stop what uses it, let it run empty, `{delete}`, then {again}"
        return f"stop what uses it, delete the exchange, then {again}"

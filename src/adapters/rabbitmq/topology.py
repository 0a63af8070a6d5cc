"""Declaring the topology: what is missing is made, and what exists is never changed.

What exists with other arguments is used as it is, and the difference is reported with its cure:
arguments cannot be changed once a queue is declared. A queue that the broker refuses is left out,
and the others are used without it.

How RabbitMQ's versions 3.10 to 4.x differ, and what fits all of them:

Delivery limit of a quorum queue: none unless set; from 4.0 it is 20. Ours is always set.
Type of a queue that is declared without one: classic, or what the virtual host has as its default.
    Ours is always named; "classic" is the same as none where that means classic.
Largest message: 128 MiB; from 4.0 it is 16 MiB. We take the smaller everywhere.
`x-death` from a client: counted, and may pass for a cycle; ignored from 4.0. The application never
    sends it, except with messages that stay where they go.
Consumer timeout: closes the channel; from 4.3 quorum queues only, and the consumer may be cancelled
    instead. Either is a lost consumer, which `Subscription` replaces.
Queues that are transient and not exclusive: deprecated, and one day refused. We have none.
An answer to the broker's `basic.cancel`: closes the channel; from 4.3.7 it is wanted. aiormq finds
    out which.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final, Self

import attrs
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker
from pika.spec import ACCESS_REFUSED, CONNECTION_FORCED, PRECONDITION_FAILED

from cronhare.application.logs import say
from cronhare.domain.topology import (
    Binding,
    Exchange,
    Queue,
    Topology,
    checked_queue,
    topology,
)
from cronhare.ports.broker import BrokerUnavailable
from cronhare.ports.inspection import BrokerGuide

from .client import (
    ANSWER_TIMEOUT,
    PIKA_ERRORS,
    Address,
    answering,
    closing_connection,
    connect,
    why_unreachable,
)

log = logging.getLogger(__name__)

QUORUM = "quorum"

#: A message that comes back from its consumers more often ends whoever reads it: it is quarantined
#: (C21 in docs/compatibility.md). It is far above what shutdowns and lost connections cause.
DELIVERY_LIMIT = 100

#: In effect none, in the one form that 3.x and 4.x both take (-1 is refused by 3.x): from a queue
#: without dead letters a message over its limit would simply be gone.
NO_DELIVERY_LIMIT = 1_000_000

#: Seconds in which a lost connection is no reason to declare again.
FRESH = 10.0

#: The refusals of what is there and of what may not be made, alike: for want of a right; and as it
#: differs, or the virtual host has as many queues as it may.
_MAY_EXIST: Final = (ACCESS_REFUSED, PRECONDITION_FAILED)


def queue_arguments(
    queue: Queue, *, queue_type: str = QUORUM, deduplication: bool = False
) -> dict[str, object]:
    """Give the arguments to declare a queue with.

    *deduplication* asks a plugin to drop copies in task queues; without the plugin, and for quorum
    queues, it does nothing. RabbitMQ 3.10.8 does not refuse a queue that differs in it.
    """
    wanted: dict[str, object] = {"x-queue-type": queue_type}
    if queue.ttl is not None:
        wanted["x-message-ttl"] = round(queue.ttl.total_seconds() * 1000)
    if queue.dead_letter_exchange is not None:
        wanted["x-dead-letter-exchange"] = queue.dead_letter_exchange
    if queue.dead_letter_key is not None:
        wanted["x-dead-letter-routing-key"] = queue.dead_letter_key
    leads_on = queue.dead_letter_exchange is not None
    if deduplication and queue.ttl is None and leads_on:  # a task queue
        wanted["x-message-deduplication"] = True
    if queue_type == QUORUM and queue.ttl is None:  # others have no consumers to give back
        wanted["x-delivery-limit"] = DELIVERY_LIMIT if leads_on else NO_DELIVERY_LIMIT
    return wanted


def guide(vhost: str) -> BrokerGuide:
    """Say what RabbitMQ must be for us, and the commands by which a person looks at one."""
    return BrokerGuide(
        product="RabbitMQ",
        oldest=(3, 10),
        first_untried=(5,),
        lack="its quorum queues know no message TTL",  # and the lanes could not be made of them
        without="set CRON_QUEUE_TYPE=classic, which was not tried there",
        busy="`rabbitmqctl status` and its log say what it is busy with",
        alarm="`rabbitmqctl status` lists the alarms and the limits; make room (memory or disk), "
        "or raise vm_memory_high_watermark or disk_free_limit",
        list_bindings=f"`rabbitmqctl list_bindings --vhost {vhost}`",
        list_policies=f"`rabbitmqctl list_policies --vhost {vhost}`",
        purge=lambda queue: f"`rabbitmqctl purge_queue --vhost {vhost} {queue}`",
        delete=lambda queue: f"`rabbitmqctl delete_queue --vhost {vhost} {queue} --if-empty`",
    )


@attrs.frozen(kw_only=True)
class Refused:
    """The broker's refusal of a step: AMQP's reply code, and the broker's own words."""

    code: int
    text: str
    cause: BaseException = attrs.field(repr=False)


class TopologyClient:
    """Asks the broker step by step, on another channel or connection if a refusal has cost one.

    Each step raises what pika says (`PIKA_ERRORS`) if the broker is away, or does not answer within
    `ANSWER_TIMEOUT`.
    """

    def __init__(
        self, address: Address, name: str, arguments_of: Callable[[Queue], dict[str, object]]
    ) -> None:
        """Connect; *name* is shown by the broker's tools."""
        self._connect = partial(connect, address, name=name)
        self.connection = self._connect()
        self._arguments_of = arguments_of
        self._channel: BlockingChannel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with closing_connection(self.connection):
            pass

    def look(self, thing: Exchange | Queue) -> Any | Refused:  # noqa: ANN401 - pika's answer
        kind = "queue" if isinstance(thing, Queue) else "exchange"
        return self._ask(f"{kind}_declare", thing.name, passive=True)

    def declare(self, thing: Exchange | Queue) -> Any | Refused:  # noqa: ANN401
        """Make it if it is not there. What is there stays, and may be a reason to refuse."""
        if isinstance(thing, Queue):
            arguments = self._arguments_of(thing)
            return self._ask("queue_declare", thing.name, durable=True, arguments=arguments)
        more = {} if thing.alternate is None else {"alternate-exchange": thing.alternate}
        return self._ask("exchange_declare", thing.name, thing.kind, durable=True, arguments=more)

    def bind(self, binding: Binding) -> Any | Refused:  # noqa: ANN401
        """Bind; a binding that is there is not doubled."""
        bind = "exchange_bind" if binding.to_exchange else "queue_bind"
        headers = dict(binding.headers)
        return self._ask(bind, binding.target, binding.source, binding.key, arguments=headers)

    def _ask(self, method: str, *what: str, **how: object) -> Any | Refused:  # noqa: ANN401
        if not self.connection.is_open:
            self.connection, self._channel = self._connect(), None
        try:
            with answering(self.connection, within=ANSWER_TIMEOUT):
                if self._channel is None or not self._channel.is_open:
                    self._channel = self.connection.channel()
                return getattr(self._channel, method)(*what, **how)
        except (ChannelClosedByBroker, ConnectionClosedByBroker) as error:
            if error.reply_code == CONNECTION_FORCED:  # it stops, or an operator ends this
                raise
            return Refused(code=error.reply_code, text=error.reply_text, cause=error)


def declare(
    client: TopologyClient, topology: Topology, *, vhost: str
) -> tuple[Sequence[str], Sequence[str]]:
    """Declare a topology; say what differs from it, and which queues were refused.

    Raises:
        BrokerUnavailable: the broker will not let us make an exchange that is missing.
    """
    differences = list[str]()
    refusals = dict[str, str]()  # by queue
    for thing in topology.things:
        refusal = client.declare(thing)
        if not isinstance(refusal, Refused):
            continue
        is_there = refusal.code in _MAY_EXIST and not isinstance(client.look(thing), Refused)
        if is_there and refusal.code == ACCESS_REFUSED:
            continue  # who may not configure it may still use it
        if is_there:
            differences.append(_difference(thing, refusal.text, vhost))
        elif isinstance(thing, Queue):
            refusals[thing.name] = refusal.text
        else:
            raise BrokerUnavailable(f"exchange {thing.name}: {refusal.text}") from refusal.cause
    for binding in topology.bindings:
        refusal = None if binding.target in refusals else client.bind(binding)
        if not isinstance(refusal, Refused):
            continue
        if refusal.code == ACCESS_REFUSED:
            text = f"Cannot see whether {binding.source} leads to {binding.target}"
            say(log, logging.WARNING, "topology.unseen", text)
        elif binding.to_exchange:
            where = f"binding {binding.source} to {binding.target}"
            raise BrokerUnavailable(f"{where}: {refusal.text}") from refusal.cause
        else:  # the queue was deleted meanwhile
            refusals[binding.target] = refusal.text
    return differences, [f"queue {name}: {text}" for name, text in refusals.items()]


def _difference(thing: Exchange | Queue, what: str, vhost: str) -> str:
    if isinstance(thing, Queue):
        kind, delete = "queue", f"let it run empty, {guide(vhost).delete(thing.name)}"
    else:
        kind, delete = "exchange", "delete the exchange"
    cure = f"stop what uses it, {delete}, then start a scheduler or worker, which declares it anew"
    return f"{kind} {thing.name} is not as declared ({what}). To change it: {cure}"


class TopologyDeclarer:
    """Declares what one process needs, as often as something may be missing. Threads may share it.

    A declaration takes a connection of its own, and some 80 short round trips.
    """

    def __init__(
        self,
        address: Address,
        *,
        retry_delay: timedelta = timedelta(seconds=30),
        queues: Iterable[str] = (),
        queue_type: str = QUORUM,
        deduplication: bool = False,
    ) -> None:
        """Nothing is declared yet. *retry_delay* is how long a nacked message rests.

        Raises:
            ValueError: a queue cannot have that name.
        """
        self._address = address
        self._arguments_of = partial(
            queue_arguments, queue_type=queue_type, deduplication=deduplication
        )
        self._retry_delay = retry_delay
        self._declaring = threading.Lock()
        self._lock = threading.Lock()
        self._queues: dict[str, None] = {}
        self._said = set[str]()  # of the latest declaration
        self._declared_at: float | None = None
        self.add_queues(queues)

    def add_queues(self, queues: Iterable[str]) -> None:
        """Declare these task queues too, from the next declaration on; checks their names."""
        with self._lock:
            wanted = self._queues | dict.fromkeys(map(checked_queue, queues))
            if wanted != self._queues:
                self._queues, self._declared_at = wanted, None

    def includes(self, queue: str) -> bool:
        """Whether a queue is declared, the system's own ones included."""
        return any(each.name == queue for each in self._topology.queues)

    def invalidate(self) -> None:
        """Something may be missing: the next `refresh` declares."""
        self._declared_at = None

    def refresh(self) -> None:
        """Declare, unless that was done a moment ago; a queue that is refused is logged.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make an exchange.
        """
        with self._declaring:  # who has waited for another's declaration needs none of his own
            done_at = self._declared_at
            if done_at is None or time.monotonic() - done_at >= FRESH:
                self._declare()

    def restore(self, queues: Iterable[str]) -> None:
        """Declare again if one of these, which were deleted beside a sound connection, is ours.

        That may happen all the time: it is done no more often than after losses of the connection.
        """
        if any(map(self.includes, queues)):
            with suppress(BrokerUnavailable):  # the connections report it
                self.refresh()

    def declare(self) -> None:
        """Make sure that everything is there. What differs is logged once and used as it is.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
        """
        with self._declaring:
            refusals = self._declare()
        if refusals:
            raise BrokerUnavailable("; ".join(refusals))

    @property
    def _topology(self) -> Topology:
        return topology(retry_delay=self._retry_delay, queues=self._queues)

    def _declare(self) -> Sequence[str]:
        wanted, began = self._topology, time.monotonic()
        try:
            with TopologyClient(self._address, "cronhare declaring", self._arguments_of) as client:
                differences, refusals = declare(client, wanted, vhost=self._address.vhost)
        except PIKA_ERRORS as error:
            why = why_unreachable(error)
            raise BrokerUnavailable(f"declaring at {self._address}: {why}") from error
        with self._lock:
            for difference in (each for each in differences if each not in self._said):
                log.warning("%s", difference, extra={"action": "topology.difference"})
            for refusal in (each for each in refusals if each not in self._said):
                log.warning("Cannot use %s", refusal, extra={"action": "topology.refusal"})
            self._said = {*differences, *refusals}
            self._declared_at = began if wanted == self._topology else None
        return refusals

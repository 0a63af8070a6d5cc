"""What `cronhare doctor` can see of a broker by AMQP alone: no plugin, no right to administer.

The lanes are probed by one message through each, from its exchange to a queue at the end:
`mandatory` covers the first hop only, and a lane whose way out is broken would confirm every
message and lose it.
"""

import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from secrets import token_hex
from typing import Any, Final

import attrs
from pika import BasicProperties, BlockingConnection
from pika.exceptions import ChannelClosedByBroker
from pika.spec import NOT_FOUND, PRECONDITION_FAILED

from cronhare.domain.addresses import Host
from cronhare.domain.topology import (
    DELIVERY_EXCHANGE,
    LANE_UNIT,
    LANES,
    Exchange,
    Queue,
    Topology,
    ToQueue,
    lane_queue,
    route,
)
from cronhare.ports.inspection import (
    BrokerFacts,
    Difference,
    Fit,
    Kind,
    LaneReport,
    LaneState,
    Link,
    Thing,
    Unreachable,
)

from .client import (
    HINTS,
    PIKA_ERRORS,
    Address,
    answering,
    cause_of,
    closing_connection,
    connect,
    describe,
)
from .topology import QUORUM, Refused, TopologyClient, guide, queue_arguments

_NAME: Final = "cronhare doctor"

#: Seconds that the broker has for its answer to a message.
TIMEOUT: Final = 3.0

#: Seconds that probes have for their way, which takes milliseconds. A busy broker is not broken.
LANES_TIMEOUT: Final = 10.0

# … inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received the value '100' of type
# 'signedint' but current is none
_DIFFERENCE: Final = re.compile(
    r"inequivalent arg '(?P<argument>[^']+)'.*: "
    r"received (the value )?(none|'(?P<wanted>[^']*)').* "
    r"but current is (the value )?(none|'(?P<found>[^']*)')",
    re.DOTALL,
)

#: Seconds between two looks into the queue at the end.
_PAUSE = 0.01

_BODY = b'"A probe of the delay lanes. It came too late, and may be thrown away."'


class RabbitInspection:
    """Satisfies `BrokerInspectionPort`."""

    def __init__(self, url: str, *, queue_type: str = QUORUM, deduplication: bool = False) -> None:
        """*queue_type* and *deduplication* are the settings that our queues are compared with.

        Raises:
            ValueError: the URL cannot be used.
        """
        self._address = Address.parse(url)
        self._arguments_of = partial(
            queue_arguments, queue_type=queue_type, deduplication=deduplication
        )

    def inspect(self, topology: Topology) -> BrokerFacts | Unreachable:
        try:
            with TopologyClient(self._address, _NAME, self._arguments_of) as client:
                # Nothing public in pika gives the server's properties.
                said = client.connection._impl.server_properties or {}  # noqa: SLF001
                link = _link(client.connection)
                things = [_thing(client, each) for each in topology.things]
            with closing_connection(self._connect()) as connection:
                alarm, answered = _ask_for_alarms(connection)
        except PIKA_ERRORS as error:
            return self._unreachable(error)
        return BrokerFacts(
            product=str(said.get("product", "a broker without a name")),
            version=str(said.get("version", "")),
            guide=guide(self._address.vhost),
            things=tuple(things),
            alarm=alarm,
            answered=answered,
            absent=tuple(self._absent()),
            link=link,
        )

    def probe(self, *, timeout: float = LANES_TIMEOUT) -> Sequence[LaneReport] | Unreachable:
        try:
            with (
                closing_connection(self._connect()) as connection,
                answering(connection, within=2 * timeout),
            ):
                return _probe(connection, timeout)
        except PIKA_ERRORS as error:
            return self._unreachable(error)

    def _unreachable(self, error: BaseException) -> Unreachable:
        cause = cause_of(error)
        return Unreachable(cause, f"{self._address}: {describe(error)}", HINTS.get(cause, ""))

    def _absent(self) -> Iterator[str]:
        nodes = self._address.url.hosts
        for node in nodes if len(nodes) > 1 else ():
            try:
                BlockingConnection(self._address.for_pika(node, name=_NAME)).close()
            except PIKA_ERRORS as error:
                yield f"{node}: {describe(error)}"

    def _connect(self) -> BlockingConnection:
        return connect(self._address, name=_NAME)


def _probe(connection: BlockingConnection, timeout: float) -> tuple[LaneReport, ...]:
    """Send one message through each lane in which nothing waits; *timeout* is in seconds.

    Where nothing was declared, all of them are broken. A probe has a TTL of its own, so that the
    longest lane takes no longer than the first.
    """
    end = f"cron_probe.{uuid.uuid4().hex}"
    channel = connection.channel()
    channel.queue_declare(end, exclusive=True)
    try:
        channel.queue_bind(end, DELIVERY_EXCHANGE, f"{'*.' * LANES}{end}")
    except ChannelClosedByBroker as refusal:
        if refusal.reply_code != NOT_FOUND:
            raise
        return tuple(LaneReport(lane, LaneState.BROKEN) for lane in range(LANES))
    states = {lane: _send(connection, lane, end) for lane in range(LANES)}
    deadline = time.monotonic() + timeout
    while LaneState.BROKEN in states.values() and time.monotonic() < deadline:
        _, properties, _ = channel.basic_get(end, auto_ack=True)
        if properties is None:
            connection.sleep(_PAUSE)
        else:
            states[int(properties.message_id or 0)] = LaneState.OPEN
    return tuple(LaneReport(lane, state) for lane, state in states.items())


def _send(connection: BlockingConnection, lane: int, end: str) -> LaneState:
    """Send a probe; its lane counts as broken until it arrives.

    No confirm is asked for: it would say no more, and never comes where a queue has no leader.
    """
    channel = connection.channel()  # one each: what is missing costs the channel
    exchange, key = route(ToQueue(end, LANE_UNIT * 2**lane))
    properties = BasicProperties(message_id=str(lane), expiration="0")
    with suppress(ChannelClosedByBroker):
        if channel.queue_declare(lane_queue(lane), passive=True).method.message_count:
            return LaneState.BUSY
        channel.basic_publish(exchange, key, _BODY, properties)
    return LaneState.BROKEN


def _link(connection: BlockingConnection) -> Link:
    """Say how this connection is encrypted; nothing public in pika gives its socket, either."""
    inner: Any = connection._impl  # noqa: SLF001
    host = Host(inner.params.host, inner.params.port)
    options = inner.params.ssl_options
    tls = None if options is None else inner._transport._sock.version()  # noqa: SLF001
    verified = options is not None and options.context.check_hostname
    return Link(host=str(host), local=host.is_local, tls=tls, verified=verified)


def _thing(client: TopologyClient, wanted: Exchange | Queue) -> Thing:
    """Declare it only if it is there, which changes nothing."""
    kind = Kind.QUEUE if isinstance(wanted, Queue) else Kind.EXCHANGE
    thing = Thing(kind=kind, name=wanted.name, fit=Fit.FITS)
    seen = client.look(wanted)
    if isinstance(seen, Refused):
        missing = seen.code == NOT_FOUND
        return attrs.evolve(thing, fit=Fit.MISSING if missing else Fit.HIDDEN)
    if thing.kind is Kind.QUEUE:
        counts = seen.method
        thing = attrs.evolve(thing, messages=counts.message_count, consumers=counts.consumer_count)
    refusal = client.declare(wanted)
    if not isinstance(refusal, Refused):
        return thing
    if refusal.code != PRECONDITION_FAILED:
        return attrs.evolve(thing, fit=Fit.HIDDEN)
    return attrs.evolve(thing, fit=Fit.DIFFERS, difference=difference(refusal.text))


def difference(text: str) -> Difference:
    """Read which argument differs from the broker's words, which name the first one.

    >>> str(difference(
    ...     "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': "
    ...     "received the value '100' of type 'signedint' but current is none"
    ... ))
    'x-message-ttl is not set, not 100'
    """
    found = _DIFFERENCE.search(text)
    if found is None:
        return Difference(argument="something", wanted="as we declare it", found=text)
    return Difference(argument=found["argument"], wanted=found["wanted"], found=found["found"])


def _ask_for_alarms(connection: BlockingConnection) -> tuple[str | None, bool]:
    """Publish a message for no queue, and see whether it is returned, or an alarm blocks us.

    The broker reports an alarm to publishers only, and before it answers the message.
    """
    alarms: list[str] = []
    returned: list[object] = []
    connection.add_on_connection_blocked_callback(
        lambda _connection, frame: alarms.append(str(frame.method.reason))
    )
    channel = connection.channel()
    channel.add_on_return_callback(lambda *message: returned.append(message))
    channel.basic_publish("", f"cronhare.doctor.{token_hex(8)}", b"", mandatory=True)
    give_up_at = time.monotonic() + TIMEOUT
    while channel.is_open and not alarms and not returned and time.monotonic() < give_up_at:
        connection.process_data_events(time_limit=0.05)
    # Who may not write to the default exchange loses the channel: that is an answer, too.
    answered = bool(returned) or not channel.is_open
    return (alarms[0], True) if alarms else (None, answered)

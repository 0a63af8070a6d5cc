"""Looking at a broker over AMQP alone: no management plugin, no right to administer."""

import re
import time
from collections.abc import Iterator, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, Final

import attrs
from pika import BlockingConnection

from cronhare.domain.addresses import Host
from cronhare.domain.diagnosis import (
    BrokerFacts,
    Difference,
    Fit,
    Kind,
    LaneReport,
    Link,
    Thing,
    Unreachable,
)
from cronhare.domain.topology import Exchange, Queue, Topology
from cronhare.ports.broker import BrokerUnavailable

from ..connection.address import Address
from ..connection.blocking import TopologyClient, connect, letting_go
from ..connection.errors import TROUBLE, cause_of, resolving, said_by
from ..wire.asking import NOT_FOUND, PRECONDITION_FAILED, Refused
from ..wire.versions import QUORUM, arguments
from .probing import probe_lanes

#: Seconds that the broker has for its answer to a message, and then to the farewell.
TIMEOUT: Final = 3.0
_FAREWELL: Final = 2.0

#: Seconds that probes have for their way, which takes milliseconds. A busy broker is not broken.
PROBING: Final = 10.0

# … inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received the value '100' of type
# 'signedint' but current is none
_DIFFERENCE: Final = re.compile(
    r"inequivalent arg '(?P<argument>[^']+)'.*: "
    r"received (the value )?(none|'(?P<wanted>[^']*)').* "
    r"but current is (the value )?(none|'(?P<found>[^']*)')",
    re.DOTALL,
)


class RabbitInspection:
    """Satisfies `BrokerInspectionPort`."""

    def __init__(self, url: str, *, queue_type: str = QUORUM, deduplication: bool = False) -> None:
        """*queue_type* and *deduplication* are what our queues are wanted to have.

        Raises:
            ValueError: the URL cannot be used.
        """
        self._url = url
        self._address = Address.parse(url)
        self._arguments_of = partial(arguments, queue_type=queue_type, deduplication=deduplication)

    def inspect(self, topology: Topology) -> BrokerFacts | Unreachable:
        """See `BrokerInspectionPort.inspect`."""
        try:
            with TopologyClient(self._connect, self._arguments_of) as walk:
                # pika keeps what the server said of itself to itself.
                said = walk.connection._impl.server_properties or {}  # noqa: SLF001
                link = _link(walk.connection)
                things = [_thing(walk, each) for each in topology.things]
            with letting_go(self._connect()) as connection:
                alarm, answered = _ask_for_alarms(connection)
        except TROUBLE as error:
            return Unreachable(cause_of(error), f"{self._address}: {said_by(error)}")
        return BrokerFacts(
            product=str(said.get("product", "a broker without a name")),
            version=str(said.get("version", "")),
            vhost=self._address.vhost,
            things=tuple(things),
            alarm=alarm,
            answered=answered,
            absent=tuple(self._absent()),
            link=link,
        )

    def probe(self) -> Sequence[LaneReport] | Unreachable:
        """See `BrokerInspectionPort.probe`."""
        try:
            return probe_lanes(self._url, timeout=PROBING)
        except BrokerUnavailable as error:
            cause = error.__cause__ or error
            return Unreachable(cause_of(cause), f"{self._address}: {said_by(cause)}")

    def _absent(self) -> Iterator[str]:
        """Try each node of several by itself."""
        nodes = self._address.url.hosts
        for node in nodes if len(nodes) > 1 else ():
            try:
                with resolving():
                    connection = BlockingConnection(
                        self._address.for_pika(node, name="cronhare doctor")
                    )
                connection.close()
            except TROUBLE as error:
                yield f"{node}: {said_by(error)}"

    def _connect(self) -> BlockingConnection:
        return connect(self._address, name="cronhare doctor", blocked_timeout=_FAREWELL)


def _link(connection: BlockingConnection) -> Link:
    """Tell how this very connection is encrypted; pika keeps its socket to itself, too."""
    inner: Any = connection._impl  # noqa: SLF001
    host = Host(inner.params.host, inner.params.port)
    options = inner.params.ssl_options
    if options is None:
        return Link(host=str(host), local=host.is_local, tls=None, verified=False)
    return Link(
        host=str(host),
        local=host.is_local,
        tls=inner._transport._sock.version(),  # noqa: SLF001
        verified=options.context.check_hostname,
    )


def _thing(walk: TopologyClient, wanted: Exchange | Queue) -> Thing:
    """Look whether it is there; only then declare it, which changes nothing that exists."""
    kind = Kind.QUEUE if isinstance(wanted, Queue) else Kind.EXCHANGE
    thing = Thing(kind=kind, name=wanted.name, fit=Fit.FITS)
    seen = walk.look_at(wanted)
    if isinstance(seen, Refused):
        missing = seen.code == NOT_FOUND
        return attrs.evolve(thing, fit=Fit.MISSING if missing else Fit.HIDDEN)
    if thing.kind is Kind.QUEUE:
        counts = seen.method
        thing = attrs.evolve(thing, messages=counts.message_count, consumers=counts.consumer_count)
    refusal = walk.declare(wanted)
    if refusal is None:
        return thing
    if refusal.code != PRECONDITION_FAILED:
        return attrs.evolve(thing, fit=Fit.HIDDEN)
    return attrs.evolve(thing, fit=Fit.DIFFERS, difference=difference(refusal.text))


def difference(text: str) -> Difference:
    """Read the broker's words for the first argument that differs.

    >>> str(difference(
    ...     "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': "
    ...     "received the value '100' of type 'signedint' but current is none"
    ... ))
    'x-message-ttl is not set, not 100'
    """
    found = _DIFFERENCE.search(text)
    if found is None:
        return Difference(argument="something", wanted="as we declare it", found=text)
    return Difference(
        argument=found["argument"],
        wanted=found["wanted"],
        found=found["found"],
    )


def _ask_for_alarms(connection: BlockingConnection) -> tuple[str | None, bool]:
    """Publish a message that no queue wants, and hear whether it comes back or we are blocked.

    An alarm is told only to those who publish. The broker answers it before the message.
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
    # Who may not write to the default exchange loses the channel: an answer, too.
    answered = bool(returned) or not channel.is_open
    return (alarms[0], True) if alarms else (None, answered)

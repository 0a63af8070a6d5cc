"""Looking at a broker over AMQP alone: no management plugin, no right to administer."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any, Final

import attrs
from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from cronhare.domain.diagnosis import (
    BrokerFacts,
    Cause,
    Difference,
    Fit,
    Kind,
    LaneReport,
    Thing,
    Unreachable,
)
from cronhare.domain.topology import Exchange, Queue, Topology
from cronhare.ports.broker import BrokerUnavailable

from .address import Address
from .probing import probe_lanes
from .trouble import TROUBLE
from .versions import QUORUM, arguments

#: Seconds that the broker has for its answer to a message, and then to the farewell.
PATIENCE: Final = 3.0
_FAREWELL: Final = 2.0

#: Seconds that probes have for their way, which takes milliseconds. A busy broker is not broken.
PROBING: Final = 10.0

_NOT_FOUND: Final = 404
_PRECONDITION_FAILED: Final = 406

# … inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received the value '100' of type
# 'signedint' but current is none
_DIFFERENCE: Final = re.compile(
    r"inequivalent arg '(?P<argument>[^']+)'.*: "
    r"received (the value )?(none|'(?P<wanted>[^']*)').* "
    r"but current is (the value )?(none|'(?P<found>[^']*)')",
    re.DOTALL,
)

_Act = Callable[[BlockingChannel], Any]


class RabbitInspection:
    """Satisfies `BrokerInspectionPort`."""

    def __init__(self, url: str, *, queue_type: str = QUORUM) -> None:
        """*queue_type* is the one that our queues are wanted to be of.

        Raises:
            ValueError: the URL cannot be used.
        """
        self._url = url
        self._address = Address.parse(url)
        self._queue_type = queue_type

    def inspect(self, topology: Topology) -> BrokerFacts | Unreachable:
        """See `BrokerInspectionPort.inspect`."""
        try:
            with self._connection() as connection:
                looking = _Looking(connection)
                exchanges = [self._exchange(looking, each) for each in topology.exchanges]
                queues = [self._queue(looking, each) for each in topology.queues]
                # pika keeps what the server said of itself to itself.
                said = connection._impl.server_properties or {}  # noqa: SLF001
            with self._connection() as connection:
                alarm, answered = _ask_for_alarms(connection)
        except TROUBLE as error:
            return Unreachable(_cause(error), f"{self._address}: {_said(error)}")
        return BrokerFacts(
            product=str(said.get("product", "a broker without a name")),
            version=str(said.get("version", "")),
            vhost=self._address.vhost,
            things=(*exchanges, *queues),
            alarm=alarm,
            answered=answered,
        )

    def probe(self) -> Sequence[LaneReport] | Unreachable:
        """See `BrokerInspectionPort.probe`."""
        try:
            return probe_lanes(self._url, patience=PROBING)
        except BrokerUnavailable as error:
            cause = error.__cause__ or error
            return Unreachable(_cause(cause), f"{self._address}: {_said(cause)}")

    @contextmanager
    def _connection(self) -> Iterator[BlockingConnection]:
        """Connect. Under an alarm the broker reads no farewell: then we go without."""
        parameters = self._address.for_pika(name="cronhare doctor", blocked_timeout=_FAREWELL)
        connection = BlockingConnection(parameters)
        try:
            yield connection
        finally:
            with suppress(*TROUBLE):
                connection.close()

    def _exchange(self, looking: "_Looking", exchange: Exchange) -> Thing:
        alternate = {} if exchange.alternate is None else {"alternate-exchange": exchange.alternate}
        return looking.at(
            Thing(kind=Kind.EXCHANGE, name=exchange.name, fit=Fit.FITS),
            passive=lambda channel: channel.exchange_declare(exchange.name, passive=True),
            active=lambda channel: channel.exchange_declare(
                exchange.name, exchange.kind, durable=True, arguments=alternate
            ),
        )

    def _queue(self, looking: "_Looking", queue: Queue) -> Thing:
        wanted = arguments(queue, queue_type=self._queue_type)
        return looking.at(
            Thing(kind=Kind.QUEUE, name=queue.name, fit=Fit.FITS),
            passive=lambda channel: channel.queue_declare(queue.name, passive=True),
            active=lambda channel: channel.queue_declare(
                queue.name, durable=True, arguments=wanted
            ),
        )


class _Looking:
    """One walk through the topology, over channels that each refusal costs."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection
        self._channel: BlockingChannel | None = None

    def at(self, thing: Thing, *, passive: _Act, active: _Act) -> Thing:
        """Look whether it is there; only then declare it, which changes nothing that exists."""
        seen = self._try(passive)
        if isinstance(seen, ChannelClosedByBroker):
            missing = seen.reply_code == _NOT_FOUND
            return attrs.evolve(thing, fit=Fit.MISSING if missing else Fit.HIDDEN)
        if thing.kind is Kind.QUEUE:
            counts = seen.method
            thing = attrs.evolve(
                thing, messages=counts.message_count, consumers=counts.consumer_count
            )
        refusal = self._try(active)
        if not isinstance(refusal, ChannelClosedByBroker):
            return thing
        if refusal.reply_code != _PRECONDITION_FAILED:
            return attrs.evolve(thing, fit=Fit.HIDDEN)
        return attrs.evolve(thing, fit=Fit.DIFFERS, difference=difference(refusal.reply_text))

    def _try(self, act: _Act) -> Any:  # noqa: ANN401 - pika's frame, or its refusal
        try:
            if self._channel is None or not self._channel.is_open:
                self._channel = self._connection.channel()
            return act(self._channel)
        except ChannelClosedByBroker as refusal:
            return refusal


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
    give_up_at = time.monotonic() + PATIENCE
    while channel.is_open and not alarms and not returned and time.monotonic() < give_up_at:
        connection.process_data_events(time_limit=0.05)
    # Who may not write to the default exchange loses the channel: an answer, too.
    answered = bool(returned) or not channel.is_open
    return (alarms[0], True) if alarms else (None, answered)


def _cause(error: BaseException) -> Cause:
    match error:
        case ProbableAuthenticationError():
            return Cause.LOGIN
        case ProbableAccessDeniedError():
            return Cause.PLACE
    inner = _innermost(error)
    # TLS spoken to a plain port, say, is an OSError as well, and no absence.
    absent = isinstance(inner, OSError) and "SSL" not in type(inner).__name__
    return Cause.ABSENT if absent else Cause.OTHER


def _said(error: BaseException) -> str:
    inner = _innermost(error)
    return str(inner) or type(inner).__name__


def _innermost(error: BaseException) -> BaseException:
    """Unwrap pika's workflow errors, which carry what really happened inside."""
    while True:
        inner = getattr(error, "exception", None) or (error.args[0] if error.args else None)
        if not isinstance(inner, BaseException):
            return error
        error = inner

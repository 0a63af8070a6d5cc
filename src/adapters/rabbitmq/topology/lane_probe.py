"""Probing the lanes: one message through each, from its exchange to a queue at the end.

`mandatory` covers the first hop only. A lane whose way out is broken would confirm every message
and lose it.
"""

import time
import uuid
from contextlib import suppress

from pika import BasicProperties, BlockingConnection
from pika.exceptions import ChannelClosedByBroker
from pika.spec import NOT_FOUND

from cronhare.domain.diagnosis.lanes import LaneReport, LaneState
from cronhare.domain.topology import DELIVERY_EXCHANGE, LANE_UNIT, LANES, ToQueue, lane_queue, route
from cronhare.ports.broker import BrokerUnavailable

from ..connection.address import Address
from ..connection.blocking import closing_connection, connect
from ..connection.errors import PIKA_ERRORS, why_unreachable

#: Seconds between two looks into the queue at the end.
_PAUSE = 0.01

_BODY = b'"A probe of the delay lanes. It came too late, and may be thrown away."'


def probe_lanes(url: str, *, timeout: float = 5.0) -> tuple[LaneReport, ...]:
    """Send one message through each lane in which nothing waits, and report on each lane.

    Where nothing was declared, all of them are broken. A probe has a TTL of its own, so that the
    longest lane takes no longer than the first; *timeout*, in seconds, bounds the whole.

    Raises:
        BrokerUnavailable: the broker could not be asked.
        ValueError: the URL cannot be used.
    """
    address = Address.parse(url)
    try:
        connection = connect(address, name="cronhare probing", blocked_timeout=timeout)
        with closing_connection(connection):
            return _probe(connection, timeout)
    except PIKA_ERRORS as error:
        raise BrokerUnavailable(
            f"probing the lanes at {address}: {why_unreachable(error)}"
        ) from error


def _probe(connection: BlockingConnection, timeout: float) -> tuple[LaneReport, ...]:
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

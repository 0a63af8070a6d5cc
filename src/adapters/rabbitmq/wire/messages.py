"""The port's messages, encoded for AMQP."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from cronhare.domain.topology import route
from cronhare.ports.broker import Envelope

from .versions import LARGEST_BODY

PERSISTENT = 2

#: RabbitMQ would send copies to the queues that these name. No message of ours asks for that, and a
#: foreign one that we park or pass on must not.
_COPYING = frozenset({"CC", "BCC"})

_PLAIN = frozenset({str, float, bool, bytes, Decimal, type(None)})
_INTEGERS = range(-(2**63), 2**63)


class AmqpMessage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A checked message with its exchange and routing key."""

    exchange: str
    key: str
    body: bytes
    headers: dict[str, Any]  # each client has types of its own for these values
    id: str | None


def encode(envelope: Envelope) -> AmqpMessage:
    """Encode a message. Its headers are copied.

    Raises:
        ValueError: its body is larger than the broker takes, or its delay than the lanes carry.
        TypeError: AMQP cannot carry a header.
    """
    message = envelope.message
    if len(message.body) > LARGEST_BODY:
        raise ValueError(f"a body of {len(message.body)} bytes; the broker takes {LARGEST_BODY}")
    exchange, key = route(envelope.to)
    return AmqpMessage(
        exchange=exchange,
        key=key,
        body=bytes(message.body),
        headers={
            name: value if type(value) in _PLAIN else _encoded(name, value)
            for name, value in message.headers.items()
            if name not in _COPYING
        },
        id=message.id,
    )


def _encoded(name: str, value: object) -> object:
    match value:
        case int() if value in _INTEGERS:
            return value
        case dict():
            return {key: _encoded(f"{name}.{key}", item) for key, item in value.items()}
        case list():
            return [_encoded(name, item) for item in value]
        case str():
            return str.__str__(value)  # the text of an enum's member
        case datetime():
            return value
        case _ if type(value) in _PLAIN:
            return value
        case _:
            raise TypeError(f"header {name}: AMQP cannot carry {value!r}")

"""Copies of messages on their way in and out, limited to what AMQP can carry."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from cronhare.domain.topology import route
from cronhare.ports.broker import Envelope, Message

#: Bytes that RabbitMQ 3.x takes; 4.x takes 16 MiB by default.
LARGEST_BODY = 128 * 2**20

_AS_THEY_ARE = frozenset({str, float, bool, bytes, Decimal, type(None)})
_INTEGERS = range(-(2**63), 2**63)


def routed_copy(envelope: Envelope) -> tuple[str, str, Message]:
    """Return a message's exchange, its routing key, and a copy of it.

    Raises:
        ValueError: its body is larger than the broker takes, or its delay than the lanes carry.
        TypeError: AMQP could not carry a header.
    """
    if len(envelope.message.body) > LARGEST_BODY:
        raise ValueError(
            f"a body of {len(envelope.message.body)} bytes; the broker takes {LARGEST_BODY}"
        )
    return *route(envelope.to), copy_of(envelope.message)


def copy_of(message: Message) -> Message:
    """Copy a message with all its mutable parts.

    Raises:
        TypeError: AMQP could not carry a header.
    """
    return Message(body=bytes(message.body), headers=_table(message.headers), id=message.id)


def _table(headers: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value if type(value) in _AS_THEY_ARE else _value(name, value)
        for name, value in headers.items()
    }


def _value(name: str, value: object) -> object:
    match value:
        case dict():
            return _table(value)
        case list():
            return [_value(name, item) for item in value]
        case datetime():
            return value.replace(microsecond=0)  # an AMQP timestamp counts seconds
        case int() if value in _INTEGERS:
            return value
        case str():
            return str.__str__(value)  # the text of an enum's member, not the member
        case _ if type(value) in _AS_THEY_ARE:
            return value
        case _:
            raise TypeError(f"header {name}: AMQP cannot carry {value!r:.80}")

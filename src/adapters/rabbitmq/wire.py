"""Messages as AMQP carries them: ours encoded, and properties decoded, whatever bytes they are.

A client that raises here loses its connection, and its next connection gets the same message
first. So we decode them: properties that we do not use are skipped, text that is no UTF-8 is
escaped, and what cannot be decoded is an error with a reason.
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Final

import msgspec
from pika.data import encode_table
from pika.exceptions import AMQPError

from cronhare.domain.texts.printable import shortened
from cronhare.domain.topology import route
from cronhare.ports.broker import Envelope

#: Bytes of a body: RabbitMQ 4's default; 3.x takes 128 MiB.
LARGEST_BODY: Final = 16 * 2**20

#: How deep the tables and arrays of headers may be nested.
DEEPEST: Final = 32

#: A quorum queue's own counts; `redelivered` says all that we need of them.
COUNTS: Final = frozenset({"x-delivery-count", "x-acquired-count"})

#: Bytes of AMQP's short string, such as an id.
LONGEST_SHORT: Final = 255

#: Bytes of a frame: no larger one is agreed upon, whatever the broker would allow.
LARGEST_FRAME: Final = 131_072

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
HEAD: Final = struct.Struct(">BHI")
END: Final = b"\xce"
BASIC: Final = 60

#: RabbitMQ would send copies to the queues that these name. No message of ours asks for that, and a
#: foreign one that we park or pass on must not.
_COPYING: Final = frozenset({"CC", "BCC"})

_PUBLISH: Final = struct.pack(">HHH", BASIC, 40, 0)
_CONTENT: Final = struct.Struct(">HHQ")
_HEADERS_AND_MODE, _ID, _PERSISTENT = 0x3000, 0x0080, b"\x02"
_LARGEST_HEADERS: Final = LARGEST_FRAME - 512  # beside the frame, and the id

_LENGTH: Final = struct.Struct(">I")
_SHORT, _TABLE = -1, -2

#: The encoding of each property in the order of the flags, from the highest bit: bytes, or a kind.
_FORMS: Final = (_SHORT, _SHORT, _TABLE, 1, 1, _SHORT, _SHORT, _SHORT, _SHORT, 8, *[_SHORT] * 4)
_MESSAGE_ID: Final = 8


class Properties(msgspec.Struct, frozen=True, kw_only=True):
    """The properties that we use, in plain Python."""

    headers: dict[str, object]
    id: str | None


class UnreadableProperties(ValueError):
    """The properties cannot be decoded; the text says why."""


def read_properties(raw: bytes) -> Properties:
    r"""Decode flags and properties as they came in the content header.

    >>> read_properties(b"\x00\x80" b"\x02\xff7")
    Properties(headers={}, id='\\xff7')

    Raises:
        UnreadableProperties: they end too early, nest too deep, or have a value of unknown type.
    """
    try:
        return _read(raw)
    except (struct.error, IndexError) as error:
        raise UnreadableProperties("the properties end in the middle of a value") from error


def _read(raw: bytes) -> Properties:
    flags = raw[0] << 8 | raw[1]
    if flags & 0b11:
        raise UnreadableProperties(f"there are no properties for the flags {flags:#06x}")
    headers: dict[str, object] = {}
    id_: str | None = None
    offset = 2
    for place, form in enumerate(_FORMS):
        if not flags & (0x8000 >> place):
            continue
        if form == _TABLE:
            headers, offset = _table(raw, offset, 0)
        elif form == _SHORT:
            text, offset = _short(raw, offset)
            id_ = _id(text) if place == _MESSAGE_ID else id_
        else:
            _, offset = _bytes(raw, offset, form)
    return Properties(headers={n: v for n, v in headers.items() if n not in COUNTS}, id=id_)


def _table(raw: bytes, offset: int, depth: int) -> tuple[dict[str, object], int]:
    inside, end = _inside(raw, offset, depth)
    found: dict[str, object] = {}
    place = 0
    while place < len(inside):
        name, place = _short(inside, place)
        found[_text(name)], place = _value(inside, place, depth)
    return found, end


def _array(raw: bytes, offset: int, depth: int) -> tuple[list[object], int]:
    inside, end = _inside(raw, offset, depth)
    found: list[object] = []
    place = 0
    while place < len(inside):
        value, place = _value(inside, place, depth)
        found.append(value)
    return found, end


def _inside(raw: bytes, offset: int, depth: int) -> tuple[bytes, int]:
    if depth > DEEPEST:
        raise UnreadableProperties(f"the headers are nested over {DEEPEST} deep")
    return _long(raw, offset)


def _value(raw: bytes, offset: int, depth: int) -> tuple[object, int]:
    kind, offset = raw[offset], offset + 1
    if kind == ord("S"):
        text, offset = _long(raw, offset)
        return _text_or_bytes(text), offset
    if kind == ord("F"):
        return _table(raw, offset, depth + 1)
    if kind == ord("A"):
        return _array(raw, offset, depth + 1)
    if kind == ord("x"):
        return _long(raw, offset)
    if kind not in _FIXED:
        raise UnreadableProperties(f"a header has a value of the unknown type {kind:#04x}")
    size, understood = _FIXED[kind]
    value, offset = _bytes(raw, offset, size)
    return understood(value), offset


def _short(raw: bytes, offset: int) -> tuple[bytes, int]:
    return _bytes(raw, offset + 1, raw[offset])


def _long(raw: bytes, offset: int) -> tuple[bytes, int]:
    return _bytes(raw, offset + 4, _LENGTH.unpack_from(raw, offset)[0])


def _bytes(raw: bytes, offset: int, size: int) -> tuple[bytes, int]:
    end = offset + size
    if end > len(raw):
        raise IndexError
    return raw[offset:end], end


def _id(text: bytes) -> str:
    """Decode an id; escaped, it may be too long for a copy of the message: then a digest of it."""
    shown = _text(text)
    if len(shown.encode()) <= LONGEST_SHORT:
        return shown
    return blake2b(text, digest_size=16).hexdigest()


def _text(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


def _text_or_bytes(text: bytes) -> str | bytes:
    """AMQP's long string is any bytes, and text in almost all messages."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _moment(raw: bytes) -> datetime | int:
    """Decode seconds since 1970; a number beyond datetime's range stays a number."""
    seconds = int.from_bytes(raw, "big")
    try:
        return datetime.fromtimestamp(seconds, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return seconds


def _decimal(raw: bytes) -> Decimal:
    return Decimal(int.from_bytes(raw[1:], "big")).scaleb(-raw[0])


def _unpacked(form: str) -> tuple[int, Callable[[bytes], object]]:
    compiled = struct.Struct(f">{form}")
    return compiled.size, lambda raw: compiled.unpack(raw)[0]


#: Types of values with a fixed size, as RabbitMQ decodes them.
_FIXED: Final[dict[int, tuple[int, Callable[[bytes], object]]]] = {
    **{ord(kind): _unpacked(form) for kind, form in zip("tbBsuIilLfd", "?bBhHiIqqfd", strict=True)},
    ord("D"): (5, _decimal),
    ord("T"): (8, _moment),
    ord("V"): (0, lambda _: None),
    0: (0, lambda _: None),
}


class AmqpMessage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A checked message with its exchange and routing key, and its properties as bytes."""

    exchange: str
    key: str
    body: bytes
    properties: bytes
    id: str | None

    @property
    def target(self) -> str:
        """Name what it enters first: a queue, or the exchange of a lane."""
        return self.exchange or self.key


def encode(envelope: Envelope) -> AmqpMessage:
    """Encode a message: persistent, with its headers and its id.

    Raises:
        ValueError: its body or its headers are larger than the broker takes, its id is longer, or
            its delay than the lanes carry.
        TypeError: AMQP cannot carry a header.
    """
    message = envelope.message
    if len(message.body) > LARGEST_BODY:
        raise ValueError(f"a body of {len(message.body)} bytes; the broker takes {LARGEST_BODY}")
    exchange, key = route(envelope.to)
    sent = {name: each for name, each in message.headers.items() if name not in _COPYING}
    headers = _encoded_table(sent)
    if len(headers) > _LARGEST_HEADERS:
        raise ValueError(f"headers of {len(headers)} bytes; the broker takes {_LARGEST_HEADERS}")
    flags = _HEADERS_AND_MODE | (_ID if message.id is not None else 0)
    id_ = b"" if message.id is None else _encoded_short(message.id)
    return AmqpMessage(
        exchange=exchange,
        key=key,
        body=bytes(message.body),
        properties=flags.to_bytes(2, "big") + headers + _PERSISTENT + id_,
        id=message.id,
    )


def publishing_frames(message: AmqpMessage, channel: int, *, largest: int) -> bytes:
    """Give the frames that publish a message, of which none has more than *largest* bytes.

    It is mandatory: what no queue takes is returned.
    """
    body = message.body
    method = b"".join(
        (_PUBLISH, _encoded_short(message.exchange), _encoded_short(message.key), b"\x01")
    )
    header = _CONTENT.pack(BASIC, 0, len(body)) + message.properties
    pieces = [_frame(METHOD, channel, method), _frame(HEADER, channel, header)]
    room = largest - HEAD.size - len(END)
    pieces += (
        _frame(BODY, channel, body[start : start + room]) for start in range(0, len(body), room)
    )
    return b"".join(pieces)


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return HEAD.pack(kind, channel, len(payload)) + payload + END


def _encoded_short(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > LONGEST_SHORT:
        raise ValueError(f"{text[:40]!r}… has more than {LONGEST_SHORT} bytes")
    return bytes((len(raw),)) + raw


def _encoded_table(table: dict[str, object]) -> bytes:
    pieces = list[bytes]()
    try:
        encode_table(pieces, table)
    except (AMQPError, struct.error) as error:
        shown = shortened(repr(table), LONGEST_SHORT)
        raise TypeError(f"AMQP cannot carry these headers: {shown}") from error
    return b"".join(pieces)

"""AMQP 0-9-1 written by hand: whatever bytes a publisher may send, which no client would encode."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

METHOD, HEADER, BODY = 1, 2, 3
_CONNECTION_CLOSE, _CHANNEL_CLOSE = (10, 50), (20, 40)
_ACK = (60, 80)

#: The flags of a message's properties, in the order in which they are written.
FLAGS = {
    "content_type": 15, "content_encoding": 14, "headers": 13, "delivery_mode": 12,
    "priority": 11, "correlation_id": 10, "reply_to": 9, "expiration": 8, "message_id": 7,
    "timestamp": 6, "type": 5, "user_id": 4, "app_id": 3, "cluster_id": 2,
}  # fmt: skip

Answer = tuple[int, int]


class BrokerRefused(Exception):
    """The broker closed the channel or the connection: it takes no such message."""


def short(text: bytes) -> bytes:
    return struct.pack(">B", len(text)) + text


def long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def table(**fields: bytes) -> bytes:
    return long(b"".join(short(name.encode()) + value for name, value in fields.items()))


def properties(**values: bytes) -> bytes:
    flags = sum(1 << FLAGS[name] for name in values)
    return struct.pack(">H", flags) + b"".join(values[name] for name in FLAGS if name in values)


class RawChannel:
    """One connection with one channel, which publishes and hears the confirms."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._socket = socket.create_connection((parts.hostname, parts.port or 5672), timeout=20)
        self._file = self._socket.makefile("rb")
        self._socket.sendall(b"AMQP\0\0\x09\x01")
        self._expect((10, 10))
        who = f"\0{parts.username}\0{parts.password}".encode()
        self._send(0, (10, 11), table() + short(b"PLAIN") + long(who) + short(b"en_US"))
        tune = self._expect((10, 30))
        self._frame_max: int = struct.unpack(">HIH", tune)[1]
        self._send(0, (10, 31), tune[:6] + b"\0\0")
        self._send(0, (10, 40), short(unquote(parts.path[1:]).encode() or b"/") + b"\0\0")
        self._expect((10, 41))
        self._send(1, (20, 10), b"\0")
        self._expect((20, 11))
        self._send(1, (85, 10), b"\0")
        self._expect((85, 11))

    def publish(self, key: bytes, properties: bytes, body: bytes, *, exchange: bytes = b"") -> None:
        """Publish and wait for the confirm.

        Raises:
            BrokerRefused: it does not take that.
        """
        self._send(1, (60, 40), b"\0\0" + short(exchange) + short(key) + b"\0")
        self._frame(HEADER, 1, struct.pack(">HHQ", 60, 0, len(body)) + properties)
        step = self._frame_max - 8
        for start in range(0, len(body), step):
            self._frame(BODY, 1, body[start : start + step])
        self._expect(_ACK)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _expect(self, wanted: Answer) -> bytes:
        while True:
            try:
                kind, _, size = struct.unpack(">BHI", self._file.read(7))
            except struct.error as error:
                raise BrokerRefused("it hung up") from error
            payload = self._file.read(size + 1)[:-1]
            if kind != METHOD:
                continue
            answer = struct.unpack(">HH", payload[:4])
            if answer in (_CONNECTION_CLOSE, _CHANNEL_CLOSE):
                raise BrokerRefused(payload[7:].decode(errors="replace"))
            if answer == wanted:
                return payload[4:]

    def _send(self, channel: int, method: Answer, arguments: bytes) -> None:
        self._frame(METHOD, channel, struct.pack(">HH", *method) + arguments)

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        self._socket.sendall(struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce")


@contextmanager
def raw_channel(url: str) -> Iterator[RawChannel]:
    channel = RawChannel(url)
    try:
        yield channel
    finally:
        channel.close()

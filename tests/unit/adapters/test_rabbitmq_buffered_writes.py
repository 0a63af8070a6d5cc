"""Frames on their way to the socket; the connection itself is pika's."""

import pytest

from cronhare.adapters.rabbitmq.connection.buffered_writes import LARGEST_WRITE, BufferedConnection


class Transport:
    """Takes what would be sent."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.pieces.append(piece)


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def connection(transport: Transport) -> BufferedConnection:
    """A connection that was never opened."""
    connection = BufferedConnection.__new__(BufferedConnection)
    connection._transport = transport  # type: ignore[assignment]
    return connection


def test_what_is_sent_together_is_one_piece(
    connection: BufferedConnection, transport: Transport
) -> None:
    with connection.buffered():
        for frame in (b"method", b"header", b"body"):
            connection._adapter_emit_data(frame)
    connection._adapter_emit_data(b"heartbeat")

    assert transport.pieces == [b"methodheaderbody", b"heartbeat"]


def test_nothing_is_kept_back_when_one_cannot_be_written(
    connection: BufferedConnection, transport: Transport
) -> None:
    def publish_two() -> None:
        with connection.buffered():
            connection._adapter_emit_data(b"whole")
            raise TypeError("a header that AMQP cannot carry")

    with pytest.raises(TypeError):
        publish_two()
    connection._adapter_emit_data(b"heartbeat")

    assert transport.pieces == [b"whole", b"heartbeat"]


def test_a_bundle_is_no_larger_than_it_has_to_be(
    connection: BufferedConnection, transport: Transport
) -> None:
    frame = b"x" * (LARGEST_WRITE // 2)

    with connection.buffered():
        for _ in range(5):
            connection._adapter_emit_data(frame)

    assert [len(piece) for piece in transport.pieces] == [LARGEST_WRITE] * 2 + [len(frame)]

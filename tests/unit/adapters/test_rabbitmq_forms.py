"""Addresses, arguments, messages and waits: what needs no broker to be tried."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest

from cronhare.adapters.rabbitmq.client import Address
from cronhare.adapters.rabbitmq.topology import queue_arguments
from cronhare.adapters.rabbitmq.wire import LARGEST_BODY, encode, read_properties
from cronhare.domain.addresses import Host
from cronhare.domain.topology import (
    FAILED_QUEUE,
    MAIN_QUEUE,
    RETRY_QUEUE,
    Queue,
    ToQueue,
    topology,
)
from cronhare.ports.broker import Envelope, Message

QUEUES = {queue.name: queue for queue in topology(retry_delay=timedelta(seconds=30)).queues}


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("amqps://h/?keyfile=/k", "certfile and keyfile are given together"),
        ("amqps://h/?certfile=/c", "certfile and keyfile are given together"),
        ("amqp://h/?cafile=/ca", "has no use for cafile, certfile or keyfile"),
        ("amqp://h/?certfile=/c&keyfile=/k", "has no use for cafile, certfile or keyfile"),
    ],
)
def test_certificates_that_would_be_of_no_use_are_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Address.parse(url)


def test_several_nodes_are_tried_in_an_order_of_chance() -> None:
    address = Address.parse("amqp://a,b:5673,[::1],c/vhost")
    all_of_them = [Host("a", 5672), Host("b", 5673), Host("::1", 5672), Host("c", 5672)]

    assert len({tuple(address.nodes()) for _ in range(200)}) > 10
    assert sorted(address.nodes()) == sorted(all_of_them)
    assert str(address) == "amqp://a:5672,b:5673,[::1]:5672,c:5672/vhost"


def test_both_clients_are_told_the_same() -> None:
    address = Address.parse("amqp://ant:s%40@h:1/a%2Fb?heartbeat=4")
    [node] = address.nodes()

    parameters = address.for_pika(node, name="n")

    assert (parameters.virtual_host, parameters.heartbeat) == ("a/b", 4)
    assert (parameters.host, parameters.port) == ("h", 1)
    assert address.for_aio_pika(node) == "amqp://ant:s%40@h:1/a%2Fb?heartbeat=4"


def test_the_queues_of_the_original_are_declared_as_it_did() -> None:
    main = queue_arguments(QUEUES[MAIN_QUEUE], queue_type="classic", deduplication=True)
    retry = queue_arguments(QUEUES[RETRY_QUEUE], queue_type="classic", deduplication=True)
    failed = queue_arguments(QUEUES[FAILED_QUEUE], queue_type="classic", deduplication=True)

    assert main == {
        "x-queue-type": "classic",
        "x-message-deduplication": True,
        "x-dead-letter-exchange": "cron_dlx",
        "x-dead-letter-routing-key": "retry",
    }
    assert retry == {
        "x-queue-type": "classic",
        "x-message-ttl": 30_000,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": MAIN_QUEUE,
    }
    assert failed == {"x-queue-type": "classic"}


@pytest.mark.parametrize("queue", QUEUES.values(), ids=lambda queue: queue.name)
def test_a_delivery_limit_is_never_left_to_the_version_where_messages_are_consumed(
    queue: Queue,
) -> None:
    wanted = queue_arguments(queue, queue_type="quorum")

    assert wanted["x-queue-type"] == "quorum"
    assert ("x-delivery-limit" in wanted) == (queue.ttl is None)
    if queue.name == MAIN_QUEUE:
        assert wanted["x-delivery-limit"] == 100


def test_headers_are_copied_and_made_plain_and_ask_for_no_copies() -> None:
    inner: dict[str, object] = {"colour": Colour.RED}
    message = Message(body=b"", headers={"inner": inner, "CC": ["q"], "BCC": ["q"], "list": [1]})

    encoded = encode(Envelope(message, ToQueue()))
    inner["colour"] = "blue"

    assert read_properties(encoded.properties).headers == {"inner": {"colour": "red"}, "list": [1]}


@pytest.mark.parametrize(
    "value",
    ["ü", b"\xff", True, 0, -1, 2**31, -(2**63), 1e300, None, [1, ["x"]], {"a": {"b": None}},
     datetime(1971, 1, 1, tzinfo=UTC)],
)  # fmt: skip
def test_a_header_is_read_as_it_was_written(value: object) -> None:
    encoded = encode(Envelope(Message(body=b"", headers={"odd": value}, id="7:1"), ToQueue()))

    read = read_properties(encoded.properties)

    assert (read.headers, read.id) == ({"odd": value}, "7:1")


@pytest.mark.parametrize("value", [{1, 2}, object(), 2**63, [object()], {"in": (1,)}])
def test_a_header_that_no_wire_carries_is_refused_by_name(value: object) -> None:
    message = Message(body=b"", headers={"odd": value})

    with pytest.raises(TypeError, match="header odd"):
        encode(Envelope(message, ToQueue()))


def test_a_body_may_be_as_large_as_the_smallest_limit_of_all_versions() -> None:
    encode(Envelope(Message(body=bytes(LARGEST_BODY)), ToQueue()))

    with pytest.raises(ValueError, match="the broker takes"):
        encode(Envelope(Message(body=bytes(LARGEST_BODY + 1)), ToQueue()))

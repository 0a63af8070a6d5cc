"""Addresses, arguments, what is published and not yet confirmed, and errors as people read them."""

from datetime import UTC, datetime, timedelta

import pytest
from aio_pika import exceptions as of_aio_pika
from pika import exceptions as of_pika
from pika.adapters.utils.connection_workflow import (
    AMQPConnectionWorkflowFailed,
    AMQPConnectorSocketConnectError,
)

from cronhare.adapters.rabbitmq.client import Address, why_unreachable
from cronhare.adapters.rabbitmq.publishing import Batch, Road
from cronhare.adapters.rabbitmq.topology import queue_arguments
from cronhare.adapters.rabbitmq.wire import LARGEST_BODY, AmqpMessage, encode, read_properties
from cronhare.domain.addresses import Host
from cronhare.domain.topology import (
    FAILED_QUEUE,
    MAIN_QUEUE,
    RETRY_QUEUE,
    Queue,
    ToQueue,
    topology,
)
from cronhare.ports.broker import Envelope, Message, Published

QUEUES = {queue.name: queue for queue in topology(retry_delay=timedelta(seconds=30)).queues}


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("amqps://h/?keyfile=/k", "certfile and keyfile are given together"),
        ("amqp://h/?cafile=/ca", "has no use for cafile, certfile or keyfile"),
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


@pytest.mark.parametrize(
    "value",
    ["ü", b"\xff", True, 0, -1, 2**31, -(2**63), None, [1, ["x"]], {"a": {"b": None}},
     datetime(1971, 1, 1, tzinfo=UTC)],
)  # fmt: skip
def test_a_header_is_read_as_it_was_written(value: object) -> None:
    encoded = encode(Envelope(Message(body=b"", headers={"odd": value}, id="7:1"), ToQueue()))

    read = read_properties(encoded.properties)

    assert (read.headers, read.id) == ({"odd": value}, "7:1")


def test_a_body_may_be_as_large_as_the_smallest_limit_of_all_versions() -> None:
    encode(Envelope(Message(body=bytes(LARGEST_BODY)), ToQueue()))

    with pytest.raises(ValueError, match="the broker takes"):
        encode(Envelope(Message(body=bytes(LARGEST_BODY + 1)), ToQueue()))


def test_each_of_two_equal_messages_is_returned_once() -> None:
    keys = ("q", "q", "other")
    batch = Batch(
        [AmqpMessage(exchange="", key=key, body=b"", properties=b"", id=None) for key in keys]
    )
    road = Road("q")
    for index in range(len(keys)):
        road.publish(batch, index)

    for _ in range(3):  # one more than there are
        road.give_back(exchange="", key="q", id=None, body=b"")
    road.confirm(3, multiple=True, outcome=Published.CONFIRMED)

    returned, confirmed = Published.RETURNED, Published.CONFIRMED
    assert batch.outcomes() == [returned, returned, confirmed]


LOGIN = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"
NO_VHOST = "NOT_ALLOWED - vhost nowhere not found"
NOT_LET_IN = "NOT_ALLOWED - access to vhost 'cron' refused for user 's3cret'"

REFUSED = AMQPConnectorSocketConnectError(ConnectionRefusedError(111, "Connection refused"))

#: As pika tells how the broker ended a connection that was being made.
CLOSED = "ConnectionClosedByBroker: ({}) {!r}"


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (
            of_pika.AMQPConnectionError(AMQPConnectionWorkflowFailed([OSError(), REFUSED])),
            "nobody answers (Connection refused): start it",
        ),
        (
            of_aio_pika.ProbableAuthenticationError(LOGIN),
            f"the login is refused ({LOGIN}): see the user and password in CRON_BROKER_URL",
        ),
        (
            of_pika.ProbableAccessDeniedError(CLOSED.format(530, NO_VHOST)),
            f"the virtual host or database is refused ({NO_VHOST}): make the virtual host",
        ),
        (
            of_pika.ProbableAccessDeniedError(CLOSED.format(530, NOT_LET_IN)),
            "(NOT_ALLOWED - access to vhost 'cron' refused for this user)",
        ),
    ],
)
def test_why_no_connection_can_be_made_is_told_with_what_to_do(
    error: BaseException, what: str
) -> None:
    text = why_unreachable(error)

    assert what in text
    assert "s3cret" not in text
    assert "Error" not in text

"""Declaring on a broker that is not empty, and trying the lanes."""

import json
from contextlib import closing
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from cronhare.adapters.rabbitmq import topology
from cronhare.adapters.rabbitmq.inspection import RabbitInspection
from cronhare.domain.topology import (
    DEAD_LETTER_EXCHANGE,
    FAILED_QUEUE,
    MAIN_QUEUE,
    QUARANTINE_QUEUE,
    RETRY_QUEUE,
    WAITING_QUEUE,
    Destination,
    ToFailed,
    ToQuarantine,
    ToQueue,
    ToWaiting,
    lane_exchange,
    lane_queue,
)
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.ports.broker import BrokerUnavailable, Envelope, Message, Published
from cronhare.ports.inspection import LaneState, Unreachable
from tests.integration import amqp
from tests.readable_broker import ReadablePikaBroker
from tests.services.rabbitmq import Server, let

pytestmark = pytest.mark.integration

RETRY_DELAY = timedelta(milliseconds=300)
REPORTS = "cron_scheduler.reports"


def broker_at(url: str, *, queue_type: str = "quorum") -> ReadablePikaBroker:
    return ReadablePikaBroker(url, retry_delay=RETRY_DELAY, queue_type=queue_type)


def declare_as_the_original_did(url: str) -> None:
    """Their queues are classic, and have arguments that cannot be changed any more."""
    with amqp.channel(url) as plain:
        plain.exchange_declare(DEAD_LETTER_EXCHANGE, "direct", durable=True)
        plain.queue_declare(
            MAIN_QUEUE,
            durable=True,
            arguments={
                "x-message-deduplication": True,
                "x-dead-letter-exchange": DEAD_LETTER_EXCHANGE,
                "x-dead-letter-routing-key": "retry",
            },
        )
        plain.queue_declare(
            RETRY_QUEUE,
            durable=True,
            arguments={
                "x-message-ttl": 100,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": MAIN_QUEUE,
            },
        )
        plain.basic_publish("", MAIN_QUEUE, b"theirs")


def test_what_exists_with_other_arguments_is_named_with_its_cure_and_used(
    vhost: str, caplog: pytest.LogCaptureFixture
) -> None:
    declare_as_the_original_did(vhost)
    with closing(broker_at(vhost)) as broker:
        broker.declare([])
        answers = broker.publish([Envelope(Message(body=b"ours"), ToQueue())])

    main, retry = differences(caplog)
    assert main.startswith(f"queue {MAIN_QUEUE} is not as declared (PRECONDITION_FAILED")
    assert "inequivalent arg 'x-queue-type'" in main
    assert f"delete_queue --vhost {urlsplit(vhost).path[1:]} {MAIN_QUEUE}" in main
    assert retry.startswith(f"queue {RETRY_QUEUE} ")
    assert answers == [Published.CONFIRMED]
    assert amqp.drain(vhost, MAIN_QUEUE) == [b"theirs", b"ours"]


def test_the_queues_of_the_original_are_ours_but_for_the_delay_when_we_are_asked_for_classic(
    vhost: str, caplog: pytest.LogCaptureFixture
) -> None:
    declare_as_the_original_did(vhost)
    with closing(broker_at(vhost, queue_type="classic")) as broker:
        broker.declare([])

    (difference,) = differences(caplog)
    assert difference.startswith(f"queue {RETRY_QUEUE} ")
    assert "received '300' but current is '100'" in difference


def differences(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [one for one in caplog.records if vars(one).get("action") == "topology.difference"]
    return [one.getMessage() for one in said]


async def test_the_setting_for_deduplication_reaches_both_clients(
    vhost: str, own_rabbitmq: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRON_BROKER_URL", vhost)
    Container(settings=Settings.read(), queues=["unset"]).broker().declare([])
    monkeypatch.setenv("CRON_MESSAGE_DEDUPLICATION", "on")
    settings = Settings.read()
    Container(settings=settings, queues=["scheduler"]).broker().declare([])
    worker = Container(settings=settings, queues=["worker"]).connection()
    await worker.consume(["worker"], prefetch=1, on_delivery=print)
    await worker.close()

    name = urlsplit(vhost).path[1:]
    shown = own_rabbitmq.control(
        "list_queues", "--vhost", name, "--formatter", "json", "name", "arguments"
    )

    assert {
        queue["name"]
        for queue in json.loads(shown)
        if ["x-message-deduplication", "bool", True] in queue["arguments"]
    } == {"scheduler", "worker"}


def test_who_may_not_configure_can_use_what_is_there_and_hears_what_is_missing(
    vhost: str, own_rabbitmq: Server
) -> None:
    name = urlsplit(vhost).path[1:]
    broker_at(vhost).declare([])
    let(own_rabbitmq, name, "secret", name, "^$", ".*", ".*")
    with closing(broker_at(vhost.replace("guest:guest", f"{name}:secret"))) as broker:
        broker.declare([])
        answers = broker.publish([Envelope(Message(body=b"task"), ToQueue())])

        assert answers == [Published.CONFIRMED]
        with pytest.raises(BrokerUnavailable, match=f"queue {REPORTS}: ACCESS_REFUSED"):
            broker.declare([REPORTS])


def test_a_queue_that_somebody_occupies_stops_no_publishing(vhost: str) -> None:
    with amqp.channel(vhost) as plain, closing(broker_at(vhost)) as broker:
        plain.queue_declare(REPORTS, exclusive=True)
        with pytest.raises(BrokerUnavailable, match=f"queue {REPORTS}: RESOURCE_LOCKED"):
            broker.declare([REPORTS])

        envelopes = [
            Envelope(Message(body=b"at once"), ToQueue()),
            Envelope(Message(body=b"later"), ToQueue(delay=timedelta(milliseconds=100))),
        ]
        answers = broker.publish(envelopes)

        assert answers == [Published.CONFIRMED] * 2


def test_a_probe_finds_the_lane_that_has_no_way_in_and_the_one_that_has_no_way_out(
    vhost: str,
) -> None:
    broker_at(vhost).declare([])
    with amqp.channel(vhost) as plain:
        plain.queue_delete(lane_queue(7))
        before = "*." * (15 - 3)
        plain.exchange_unbind(lane_exchange(2), lane_exchange(3), f"{before}0.#")

    reports = RabbitInspection(vhost).probe(timeout=0.5)
    assert not isinstance(reports, Unreachable)

    broken = [report.lane for report in reports if report.state is LaneState.BROKEN]
    assert broken == [*range(4, 16)]  # all of them pass 3 on their way


def test_a_lane_in_which_messages_wait_is_left_alone(vhost: str) -> None:
    with closing(broker_at(vhost)) as broker:
        broker.publish([Envelope(Message(body=b"later"), ToQueue(delay=timedelta(seconds=3277)))])

    reports = RabbitInspection(vhost).probe()
    assert not isinstance(reports, Unreachable)

    assert reports[15].state is LaneState.BUSY
    assert {report.state for report in reports[:15]} == {LaneState.OPEN}


@pytest.mark.parametrize(
    ("queue", "to"),
    [
        (MAIN_QUEUE, ToQueue()),
        (FAILED_QUEUE, ToFailed()),
        (QUARANTINE_QUEUE, ToQuarantine()),
        (WAITING_QUEUE, ToWaiting()),
        (lane_queue(3), ToQueue(delay=timedelta(seconds=0.8))),
    ],
)
def test_a_deleted_queue_is_there_for_the_next_message_if_it_is_ours(
    vhost: str, monkeypatch: pytest.MonkeyPatch, queue: str, to: Destination
) -> None:
    monkeypatch.setattr(topology, "FRESH", 0.0)
    messages = [Envelope(Message(body=b"one"), each) for each in (to, ToQueue("theirs"))]
    with closing(broker_at(vhost)) as broker:
        broker.declare([])
        assert broker.publish(messages) == [Published.CONFIRMED, Published.RETURNED]
        with amqp.channel(vhost) as plain:
            plain.queue_delete(queue)

        first, second = broker.publish(messages), broker.publish(messages)

    assert first == [Published.RETURNED] * 2
    assert second == [Published.CONFIRMED, Published.RETURNED]

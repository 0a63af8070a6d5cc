"""What a publish says when the broker refuses, stops, or goes away."""

import logging
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest

from cronhare.adapters.rabbitmq import client, publishing
from cronhare.domain.topology import (
    FAILED_QUEUE,
    MAIN_QUEUE,
    WAITING_QUEUE,
    ToFailed,
    ToQueue,
    ToWaiting,
)
from cronhare.ports.broker import BrokerUnavailable, Envelope, Message, Published
from tests.integration import amqp
from tests.readable_broker import ReadablePikaBroker
from tests.services.finding import wait_until
from tests.services.proxy import Link, proxy_in_thread
from tests.services.rabbitmq import Server

pytestmark = pytest.mark.integration


#: Seconds after which something hangs, however busy the machine.
HANGS = 60.0

HANGING, OTHER = "cron_scheduler.hanging", "cron_scheduler.other"


@contextmanager
def publisher(url: str, *, publish_timeout: float = 5.0) -> Iterator[ReadablePikaBroker]:
    with closing(ReadablePikaBroker(url, publish_timeout=publish_timeout)) as broker:
        yield broker


@contextmanager
def behind_a_link(
    url: str, *, publish_timeout: float = 5.0
) -> Iterator[tuple[ReadablePikaBroker, Link]]:
    port = urlsplit(url).port
    assert port is not None
    with (
        proxy_in_thread(port) as (own_port, link),
        publisher(url.replace(str(port), str(own_port)), publish_timeout=publish_timeout) as broker,
    ):
        yield broker, link


def batch(count: int, *, queue: str = MAIN_QUEUE) -> list[Envelope]:
    return [
        Envelope(Message(body=b"%d" % n, id=f"{n}:1"), ToQueue(queue)) for n in range(1, count + 1)
    ]


def is_back(broker: ReadablePikaBroker) -> bool:
    return broker.publish(batch(1)) == [Published.CONFIRMED]


def test_what_a_scheduler_publishes_is_persistent(vhost: str) -> None:
    others = [Envelope(Message(body=b"other"), to) for to in (ToFailed(), ToWaiting())]

    with publisher(vhost) as broker:
        assert broker.publish([*batch(1), *others]) == [Published.CONFIRMED] * 3

    assert amqp.delivery_modes(vhost, MAIN_QUEUE, FAILED_QUEUE, WAITING_QUEUE) == [2, 2, 2]


def test_a_queue_that_was_full_is_published_to_once_its_bound_is_lifted(
    vhost: str, own_rabbitmq: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "RENEW_AFTER", 0.1)
    with publisher(vhost) as broker:
        broker.declare([])
        with amqp.full(vhost, MAIN_QUEUE, own_rabbitmq):
            answers = broker.publish(batch(3))
            others = broker.publish([Envelope(Message(body=b"other"), ToFailed())] * 3)

        assert list(answers) == [Published.REFUSED] * 3
        assert list(others) == [Published.CONFIRMED] * 3
        wait_until(lambda: is_back(broker), seconds=HANGS, what="publishing to it")


def test_an_outage_is_noticed_though_nothing_is_published(vhost: str, own_rabbitmq: Server) -> None:
    with publisher(vhost) as broker:
        assert broker.is_reachable()
        connections = "rabbit_networking:connection_info_all([client_properties])"
        seen = (
            f'string:find(io_lib:format("~p", [{connections}]), "cronhare publishing") =/= nomatch'
        )
        wait_until(
            lambda: own_rabbitmq.evaluate(seen) == "true", seconds=HANGS, what="a connection"
        )

        own_rabbitmq.kill()
        wait_until(lambda: not broker.is_reachable(), seconds=HANGS, what="the outage")
        own_rabbitmq.start()
        wait_until(broker.is_reachable, seconds=HANGS, what="the return")


def test_a_connection_on_which_no_confirm_comes_gives_way_to_another(vhost: str) -> None:
    with behind_a_link(vhost, publish_timeout=2) as (broker, link):
        broker.publish(batch(1))
        before = link.connections

        link.freeze()
        answers = broker.publish(batch(1))
        wait_until(  # the heartbeats would take twenty seconds to tell
            lambda: link.connections > before, seconds=HANGS, what="connecting again"
        )
        link.thaw()

        assert answers == [Published.UNKNOWN]
        wait_until(lambda: is_back(broker), seconds=HANGS, what="publishing again")


def test_a_broker_that_takes_connections_and_says_nothing_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT", 0.3)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        publisher(f"amqp://127.0.0.1:{silent.getsockname()[1]}/") as broker,
    ):
        with pytest.raises(BrokerUnavailable):
            broker.declare([])
        answers = broker.publish(batch(1))

    assert answers == [Published.UNKNOWN]
    assert not any(getattr(line, "action", "") == "broker.fault" for line in caplog.records)


@contextmanager
def hanging(queue: str, vhost: str, broker: Server) -> Iterator[None]:
    """Suspend the process of a quorum queue."""
    name = f"{urlsplit(vhost).path.removeprefix('/')}_{queue}"
    broker.evaluate(f"sys:suspend(whereis('{name}'))")
    try:
        yield
    finally:
        broker.evaluate(f"sys:resume(whereis('{name}'))")


@pytest.mark.parametrize("hung", [2, 700])  # over so many RabbitMQ stops reading the connection
def test_a_queue_that_hangs_keeps_nothing_of_others_back(
    vhost: str, own_rabbitmq: Server, caplog: pytest.LogCaptureFixture, hung: int
) -> None:
    caplog.set_level(logging.INFO, "cronhare")
    mixed = [*batch(3), *batch(hung, queue=HANGING), *batch(3, queue=OTHER)]
    with publisher(vhost, publish_timeout=2.0) as broker:
        broker.declare([HANGING, OTHER])
        assert set(broker.publish(mixed)) == {Published.CONFIRMED}

        give_up_at = time.monotonic() + HANGS
        with hanging(HANGING, vhost, own_rabbitmq):
            answers = broker.publish(mixed)
            while not logged("queue.unavailable", caplog) or not innocents(answers, hung=hung):
                assert time.monotonic() < give_up_at, "others wait for the one that hangs"
                answers = broker.publish(mixed)
            assert all(innocents(broker.publish(mixed), hung=hung) for _ in range(20))
        wait_until(
            lambda: set(broker.publish(mixed)) == {Published.CONFIRMED},
            seconds=HANGS,
            what="publishing to the one again",
        )

    [line] = logged("queue.unavailable", caplog)
    assert line.startswith(f"{HANGING} confirms nothing")
    assert len(logged("queue.back", caplog)) == 1


def innocents(answers: Sequence[Published], *, hung: int) -> bool:
    return {*answers[:3], *answers[3 + hung :]} == {Published.CONFIRMED}


def logged(action: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if vars(one).get("action") == action]

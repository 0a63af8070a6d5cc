"""What every `BrokerPort` promises. An adapter joins by one more parameter of `bench`."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from time import sleep

import attrs
import pytest

from cronhare.domain.topology import (
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
)
from cronhare.ports.broker import Delivery, Envelope, Message, Published
from tests.frozen_clock import FrozenClock
from tests.ports import ReadableBroker
from tests.readable_broker import ReadablePikaBroker
from tests.services.rabbitmq import Server
from tests.trial_broker import TrialBroker

REPORTS = "cron_scheduler.reports"
RETRY_DELAY = timedelta(milliseconds=400)

#: How late a real broker may be, in seconds.
LATENESS = 0.3


@attrs.frozen
class Bench:
    """A broker with no messages and the topology for two task queues, and its time.

    *elapse* lets at least that much of the broker's time pass, and whatever falls due in it happen.
    """

    broker: ReadableBroker
    elapse: Callable[[timedelta], None]

    def publish(self, body: bytes, to: Destination | None = None) -> Published:
        """Publish one message."""
        (answer,) = self.broker.publish([Envelope(Message(body=body), to or ToQueue())])
        return answer

    def receive(self, queue: str = MAIN_QUEUE) -> Delivery:
        """Take a message that must be there."""
        delivery = self.broker.receive(queue)
        assert delivery is not None, f"{queue} is empty"
        return delivery

    def bodies(self, queue: str = MAIN_QUEUE) -> list[bytes]:
        """Take all that waits."""
        return [
            delivery.message.body for delivery in iter(lambda: self.broker.receive(queue), None)
        ]


@pytest.fixture(
    params=[
        "memory",
        pytest.param("quorum", marks=pytest.mark.integration),
        pytest.param("classic", marks=pytest.mark.integration),
    ]
)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    queues = [MAIN_QUEUE, REPORTS]
    if request.param == "memory":
        clock = FrozenClock(datetime(2026, 3, 28, 12, 0, 0, 700_000, tzinfo=UTC))
        yield Bench(TrialBroker(clock, retry_delay=RETRY_DELAY, queues=queues), clock.advance)
        return
    server: Server = request.getfixturevalue("rabbitmq")
    options = {"retry_delay": RETRY_DELAY, "queues": queues, "queue_type": request.param}
    with server.vhost() as url, closing(ReadablePikaBroker(url, **options)) as broker:
        broker.declare([])
        yield Bench(broker, lambda duration: sleep(duration.total_seconds() + LATENESS))


def test_a_published_message_arrives_byte_for_byte_with_its_headers_and_its_id(
    bench: Bench,
) -> None:
    headers = {"cron-attempt": 2, "cron-key": "cron-2025-12-12-8-0", "nested": {"list": [1, "ü"]}}
    message = Message(body=bytes(range(256)), headers=headers, id="17:2")

    answers = bench.broker.publish([Envelope(message, ToQueue())])

    assert list(answers) == [Published.CONFIRMED]
    delivery = bench.receive()
    assert delivery.message == message
    assert (delivery.queue, delivery.redelivered) == (MAIN_QUEUE, False)


def test_a_batch_is_answered_one_by_one_and_keeps_its_order(bench: Bench) -> None:
    batch = [Envelope(Message(body=b"%d" % n), ToQueue()) for n in range(100)]
    batch[50] = Envelope(Message(body=b"lost"), ToQueue("nobody.declared.this"))

    answers = bench.broker.publish(batch)

    expected = [Published.CONFIRMED] * 100
    expected[50] = Published.RETURNED
    assert list(answers) == expected
    assert bench.bodies() == [b"%d" % n for n in range(100) if n != 50]


def test_each_destination_has_its_queue(bench: Bench) -> None:
    bench.publish(b"task", ToQueue(REPORTS))
    bench.publish(b"failed", ToFailed())
    bench.publish(b"parked", ToQuarantine())
    bench.publish(b"waiting", ToWaiting())

    assert bench.bodies(REPORTS) == [b"task"]
    assert bench.bodies(FAILED_QUEUE) == [b"failed"]
    assert bench.bodies(QUARANTINE_QUEUE) == [b"parked"]
    assert bench.bodies(WAITING_QUEUE) == [b"waiting"]
    assert bench.bodies(MAIN_QUEUE) == []


def test_a_queue_can_be_declared_while_the_broker_is_in_use_and_again(bench: Bench) -> None:
    bench.publish(b"before")

    bench.broker.declare(["cron_scheduler.mails"])
    bench.broker.declare(["cron_scheduler.mails", MAIN_QUEUE])

    assert bench.publish(b"mail", ToQueue("cron_scheduler.mails")) is Published.CONFIRMED
    assert bench.bodies("cron_scheduler.mails") == [b"mail"]
    assert bench.bodies() == [b"before"]


def test_a_delayed_message_comes_once_its_delay_is_over_and_waits_behind_no_longer_one(
    bench: Bench,
) -> None:
    short = timedelta(milliseconds=700)
    answers = [
        bench.publish(b"long", ToQueue(delay=timedelta(seconds=2))),
        bench.publish(b"short", ToQueue(delay=short)),
        bench.publish(b"report", ToQueue(REPORTS, short)),
    ]

    early = bench.bodies() + bench.bodies(REPORTS)
    bench.elapse(short)
    first = bench.bodies() + bench.bodies(REPORTS)
    bench.elapse(timedelta(milliseconds=1300))

    assert (answers, early) == ([Published.CONFIRMED] * 3, [])
    assert (first, bench.bodies()) == ([b"short", b"report"], [b"long"])


def test_a_delayed_message_without_a_queue_is_confirmed_and_ends_in_quarantine(
    bench: Bench,
) -> None:
    answer = bench.publish(b"stray", ToQueue("nobody", timedelta(milliseconds=100)))

    bench.elapse(timedelta(milliseconds=100))

    assert answer is Published.CONFIRMED
    assert bench.bodies(QUARANTINE_QUEUE) == [b"stray"]


def test_the_deaths_of_a_nacked_message_are_counted_the_newest_first(bench: Bench) -> None:
    bench.publish(b"again")

    for _ in range(3):
        bench.broker.nack(bench.receive())
        bench.elapse(RETRY_DELAY)

    headers = bench.receive().message.headers
    assert _deaths(headers) == [
        (RETRY_QUEUE, "expired", 3, "cron_dlx", ["retry"]),
        (MAIN_QUEUE, "rejected", 3, "", [MAIN_QUEUE]),
    ]
    assert headers["x-first-death-reason"] == "rejected"
    assert headers["x-first-death-queue"] == MAIN_QUEUE
    assert headers["x-first-death-exchange"] == ""


def test_what_is_nacked_where_nothing_follows_is_gone(bench: Bench) -> None:
    bench.publish(b"failed", ToFailed())

    bench.broker.nack(bench.receive(FAILED_QUEUE))
    bench.elapse(RETRY_DELAY)

    assert bench.bodies(FAILED_QUEUE) == bench.bodies() == []


def _entries(headers: object) -> list[dict[str, object]]:
    assert isinstance(headers, dict)
    deaths = headers["x-death"]
    assert isinstance(deaths, list)
    return deaths


def _deaths(headers: object) -> list[tuple[object, ...]]:
    fields = ("queue", "reason", "count", "exchange", "routing-keys")
    return [tuple(death[field] for field in fields) for death in _entries(headers)]

"""When the publishing thread is available, on connections that end as a test says."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from queue import Queue

import pytest

from cronhare.adapters.rabbitmq.connection.address import Address
from cronhare.adapters.rabbitmq.publisher import thread
from cronhare.adapters.rabbitmq.publisher.confirms import Batch
from cronhare.adapters.rabbitmq.publisher.connection import TRIAL
from cronhare.adapters.rabbitmq.publisher.thread import PublisherThread
from tests.services.finding import wait_until

#: Seconds. What takes longer is stuck.
STUCK = 60.0

CLOSED = {"was_open": True}
UNRESPONSIVE = {"was_open": True, "was_unresponsive": True}
ANSWERED = {"was_open": True, "was_answered": True}
NEVER_OPEN: Mapping[str, bool] = {}


class Connections:
    """Stands for connections and for the rests between them."""

    def __init__(self) -> None:
        self.ends = Queue[Mapping[str, bool]]()
        self.trusted: list[bool] = []
        self.rests = threading.Semaphore(0)
        self.rested = 0
        self.over = False

    def connect(
        self, *_: object, is_trusted: bool, on_ready: Callable[[], None], **__: object
    ) -> "Connections":
        """Make one."""
        self.is_ready = on_ready
        self.trusted.append(is_trusted)
        return self

    def run(self) -> None:
        """Open, and end as the test says."""
        self.was_open = self.was_unresponsive = self.was_answered = self.was_refused = False
        self.ended_by = None
        vars(self).update(self.ends.get())

    def end(self) -> None:
        """Have nothing under way."""

    def nudge(self) -> None:
        """Ignore that something waits."""

    def stop(self) -> None:
        """Be ended by now, or soon."""

    def next(self) -> float:
        """Rest as long as the test says."""
        self.rested += 1
        if not self.over:
            self.rests.acquire()
        return 0.0

    def reset(self) -> None:
        """Ignore a sign of life."""

    def let_end(self, **how: bool) -> None:
        """End a connection, and wait for the rest that follows."""
        before = self.rested
        self.ends.put(how)
        wait_until(lambda: self.rested > before, seconds=STUCK, what="the end of a connection")

    def go_on(self) -> None:
        """Let the rest end, and wait until another connection is made."""
        before = len(self.trusted)
        self.rests.release()
        wait_until(lambda: len(self.trusted) > before, seconds=STUCK, what="another connection")


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """What stands for connections."""
    stand_in = Connections()
    monkeypatch.setattr(thread, "PublisherConnection", stand_in.connect)
    monkeypatch.setattr(thread, "Backoff", lambda: stand_in)
    return stand_in


@pytest.fixture
def publisher(connections: Connections) -> Iterator[PublisherThread]:
    """One that has begun."""
    address = Address.parse("amqp://nowhere.example/")
    publisher = PublisherThread(
        address,
        prepare=lambda: None,
        invalidate=lambda: None,
        timeout=1.0,
        suspect=print,
        level=logging.WARNING,
    )
    assert publisher.is_available()
    yield publisher
    connections.over = True
    connections.rests.release()
    connections.ends.put(NEVER_OPEN)
    publisher.close()


@pytest.mark.parametrize(
    ("how", "available"),
    [(CLOSED, True), (ANSWERED, True), (UNRESPONSIVE, False), (NEVER_OPEN, False)],
    ids=["closed", "answered", "unresponsive", "never open"],
)
def test_it_is_available_after_connections_that_served(
    publisher: PublisherThread, connections: Connections, how: Mapping[str, bool], available: bool
) -> None:
    connections.let_end(**how)

    assert publisher.is_available() is available


def test_after_an_unresponsive_connection_it_is_available_only_once_the_broker_has_answered(
    publisher: PublisherThread, connections: Connections
) -> None:
    connections.let_end(**UNRESPONSIVE)
    connections.go_on()
    opened = publisher.is_available()
    connections.is_ready()
    answered = publisher.is_available()
    connections.let_end(**CLOSED)

    assert (opened, answered, publisher.is_available()) == (False, True, False)


def test_after_an_unresponsive_connection_one_of_the_next_has_to_confirm_what_waited(
    publisher: PublisherThread, connections: Connections
) -> None:
    for how in (UNRESPONSIVE, CLOSED, ANSWERED):
        connections.let_end(**how)
        connections.go_on()

    assert publisher.is_available()
    assert connections.trusted == [True, False, False, True]


def test_what_waits_behind_an_unresponsive_connection_is_given_up_with_it(
    publisher: PublisherThread, connections: Connections
) -> None:
    waiting = Batch([TRIAL])
    publisher.submit(waiting)

    connections.let_end(**UNRESPONSIVE)

    assert waiting.is_out

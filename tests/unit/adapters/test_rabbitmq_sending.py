"""When the publishing thread hopes, on connections that end as a test says."""

import threading
from collections.abc import Callable, Iterator, Mapping
from queue import Queue

import pytest

from cronhare.adapters.rabbitmq.connection.address import Address
from cronhare.adapters.rabbitmq.publisher import sending
from cronhare.adapters.rabbitmq.publisher.sending import Sender
from cronhare.adapters.rabbitmq.publisher.trust import TRIAL
from cronhare.adapters.rabbitmq.publisher.window import Batch
from tests.services.finding import wait_until

#: Seconds. What takes longer is stuck.
STUCK = 60.0

CLOSED = {"was_open": True}
VAIN = {"was_open": True, "was_vain": True}
CONFIRMED = {"was_open": True, "was_heard": True}
NEVER_OPEN: Mapping[str, bool] = {}


class Connections:
    """Stands for connections and for the rests between them."""

    def __init__(self) -> None:
        self.ends = Queue[Mapping[str, bool]]()
        self.trusted: list[bool] = []
        self.rests = threading.Semaphore(0)
        self.rested = 0
        self.over = False

    def line(
        self, *_: object, is_trusted: bool, on_ready: Callable[[], None], **__: object
    ) -> "Connections":
        """Make one."""
        self.is_ready = on_ready
        self.trusted.append(is_trusted)
        return self

    def run(self) -> None:
        """Open, and end as the test says."""
        self.was_open = self.was_vain = self.was_heard = self.was_refused = False
        self.ended_by = None
        vars(self).update(self.ends.get())

    def end(self) -> None:
        """Have nothing under way."""

    def nudge(self) -> None:
        """Be told that something waits."""

    def stop(self) -> None:
        """Be ended by now, or soon."""

    def next(self) -> float:
        """Rest as long as the test says."""
        self.rested += 1
        if not self.over:
            self.rests.acquire()
        return 0.0

    def reset(self) -> None:
        """Be told of a sign of life."""

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
    monkeypatch.setattr(sending, "PublisherConnection", stand_in.line)
    monkeypatch.setattr(sending, "Backoff", lambda: stand_in)
    return stand_in


@pytest.fixture
def sender(connections: Connections) -> Iterator[Sender]:
    """A sender that has begun."""
    address = Address.parse("amqp://nowhere.example/")
    sender = Sender(address, prepare=lambda: None, doubt=lambda: None, timeout=1.0, suspect=print)
    assert sender.is_hopeful()
    yield sender
    connections.over = True
    connections.rests.release()
    connections.ends.put(NEVER_OPEN)
    sender.close()


@pytest.mark.parametrize(
    ("how", "hopeful"),
    [(CLOSED, True), (CONFIRMED, True), (VAIN, False), (NEVER_OPEN, False)],
    ids=["closed", "confirmed", "vain", "never open"],
)
def test_it_hopes_after_connections_that_served(
    sender: Sender, connections: Connections, how: Mapping[str, bool], hopeful: bool
) -> None:
    connections.let_end(**how)

    assert sender.is_hopeful() is hopeful


def test_after_a_vain_connection_it_hopes_only_once_the_broker_has_answered(
    sender: Sender, connections: Connections
) -> None:
    connections.let_end(**VAIN)
    connections.go_on()
    opened = sender.is_hopeful()
    connections.is_ready()
    answered = sender.is_hopeful()
    connections.let_end(**CLOSED)

    assert (opened, answered, sender.is_hopeful()) == (False, True, False)


def test_after_a_vain_connection_one_of_the_next_has_to_confirm_what_waited(
    sender: Sender, connections: Connections
) -> None:
    for how in (VAIN, CLOSED, CONFIRMED):
        connections.let_end(**how)
        connections.go_on()

    assert sender.is_hopeful()
    assert connections.trusted == [True, False, False, True]


def test_what_waits_behind_a_vain_connection_is_given_up_with_it(
    sender: Sender, connections: Connections
) -> None:
    waiting = Batch([TRIAL])
    sender.submit(waiting)

    connections.let_end(**VAIN)

    assert waiting.is_out

"""The topology that one process needs, kept standing: declared at the start and after each loss."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta

from cronhare.domain.topology import MAIN_QUEUE, Topology, checked_queue, topology
from cronhare.ports.broker import BrokerUnavailable

from .address import Address
from .declaring import Declared, Difference, declare
from .versions import CLASSIC, QUORUM

log = logging.getLogger(__name__)

#: Seconds in which a lost connection is no reason to declare anew: some 60 round trips each time.
FRESH = 10.0


class Upkeep:
    """Declares what is wanted, as often as asked. Safe to share between threads."""

    def __init__(
        self,
        address: Address,
        *,
        retry_delay: timedelta,
        queues: Iterable[str],
        queue_type: str,
        deduplication: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is declared yet. *now* counts seconds.

        Raises:
            ValueError: a queue cannot have that name, or *queue_type* is none of ours.
        """
        if queue_type not in (QUORUM, CLASSIC):
            raise ValueError(f"queue type {queue_type!r}: there are {QUORUM} and {CLASSIC}")
        self._found = Declared()
        self._address = address
        self._retry_delay = retry_delay
        self._queue_type = queue_type
        self._deduplication = deduplication
        self._lock = threading.Lock()
        self._queues: dict[str, None] = {}
        self._now = now
        self._declared_at: float | None = None
        self.want(queues)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What exists otherwise than we would declare it, as of the last declaration."""
        return self._found.differences

    def want(self, queues: Iterable[str]) -> None:
        """Want these task queues too, from the next `declare` on.

        Raises:
            ValueError: a queue cannot have that name.
        """
        with self._lock:
            wanted = self._queues | dict.fromkeys(map(checked_queue, queues))
            if wanted != self._queues:
                self._queues, self._declared_at = wanted, None

    def knows(self, queue: str) -> bool:
        """Whether a queue is part of what is wanted, the system's own ones included."""
        return any(each.name == queue for each in self._wanted().queues)

    def refresh(self) -> None:
        """Declare, unless that was done a moment ago and nobody has doubted it since.

        A queue that is refused is told in the log, and keeps nobody from using the others.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what all need.
        """
        with self._lock:  # who has waited for another's declaration needs none of his own
            done_at = self._declared_at
            if done_at is None or self._now() - done_at >= FRESH:
                self._declare()

    def restore(self, queues: Iterable[str]) -> None:
        """Messages for these queues came back: have those that are sent again find ours there.

        Somebody has deleted one beside a sound connection, and may do so all the time: it is
        declared not more often than after losses of the connection.
        """
        if any(map(self.knows, queues)):
            with suppress(BrokerUnavailable):  # the connections tell of it
                self.refresh()

    def doubt(self) -> None:
        """Something may be missing: the next `refresh` declares, however soon."""
        self._declared_at = None

    def declare(self) -> None:
        """Make sure that everything is there. What differs is logged once and used as it is.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
        """
        with self._lock:
            found = self._declare()
        if found.refusals:
            raise BrokerUnavailable("; ".join(map(str, found.refusals)))

    def _declare(self) -> Declared:
        began = self._now()
        found = declare(
            self._address,
            self._wanted(),
            queue_type=self._queue_type,
            deduplication=self._deduplication,
        )
        for difference in found.differences:
            if difference not in self._found.differences:
                log.warning("%s", difference, extra={"action": "topology.difference"})
        for refusal in found.refusals:
            if refusal not in self._found.refusals:
                log.warning("Cannot use %s", refusal, extra={"action": "topology.refusal"})
        self._found = found
        self._declared_at = began
        return found

    def _wanted(self) -> Topology:
        return topology(retry_delay=self._retry_delay, queues=self._queues or (MAIN_QUEUE,))

"""The topology that one process needs, kept standing: declared at the start and after each loss."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from cronhare.domain.topology import MAIN_QUEUE, Topology, checked_queue, topology

from .address import Address
from .declaring import Difference, declare
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
        self.differences: tuple[Difference, ...] = ()
        self._address = address
        self._retry_delay = retry_delay
        self._queue_type = queue_type
        self._deduplication = deduplication
        self._lock = threading.Lock()
        self._queues: dict[str, None] = {}
        self._now = now
        self._declared_at: float | None = None
        self.want(queues)

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

        Raises:
            BrokerUnavailable: see `declare`.
        """
        done_at = self._declared_at
        if done_at is None or self._now() - done_at >= FRESH:
            self.declare()

    def doubt(self) -> None:
        """Something may be missing: the next `refresh` declares, however soon."""
        self._declared_at = None

    def declare(self) -> None:
        """Make sure that everything is there. What differs is logged once and used as it is.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
        """
        wanted, began = self._wanted(), self._now()
        with self._lock:
            found = declare(
                self._address,
                wanted,
                queue_type=self._queue_type,
                deduplication=self._deduplication,
            )
            for difference in found:
                if difference not in self.differences:
                    log.warning("%s", difference, extra={"action": "topology.difference"})
            self.differences = found
            self._declared_at = began

    def _wanted(self) -> Topology:
        return topology(retry_delay=self._retry_delay, queues=self._queues or (MAIN_QUEUE,))

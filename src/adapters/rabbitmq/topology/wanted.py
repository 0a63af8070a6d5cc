"""The topology that one process wants, and what is known of it. No I/O here."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from cronhare.domain.topology import MAIN_QUEUE, Topology, checked_queue, topology

from ..wire.versions import CLASSIC, QUORUM
from .declaration import Declared, Difference

log = logging.getLogger(__name__)

#: Seconds in which a lost connection is no reason to declare anew: some 60 round trips each time.
FRESH = 10.0


class WantedTopology:
    """Remembers what is wanted, and what its last declaration found. Safe to share by threads."""

    def __init__(
        self,
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
        self.now = now
        self.queue_type = queue_type
        self.deduplication = deduplication
        self._found = Declared()
        self._retry_delay = retry_delay
        self._lock = threading.Lock()
        self._queues: dict[str, None] = {}
        self._declared_at: float | None = None
        self.want(queues)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What exists otherwise than we would declare it, as of the last declaration."""
        return self._found.differences

    @property
    def topology(self) -> Topology:
        """All that is to be there."""
        return topology(retry_delay=self._retry_delay, queues=self._queues or (MAIN_QUEUE,))

    @property
    def is_fresh(self) -> bool:
        """Whether it was declared a moment ago, and nobody has doubted it since."""
        done_at = self._declared_at
        return done_at is not None and self.now() - done_at < FRESH

    def want(self, queues: Iterable[str]) -> None:
        """Want these task queues too, from the next declaration on.

        Raises:
            ValueError: a queue cannot have that name.
        """
        with self._lock:
            wanted = self._queues | dict.fromkeys(map(checked_queue, queues))
            if wanted != self._queues:
                self._queues, self._declared_at = wanted, None

    def knows(self, queue: str) -> bool:
        """Whether a queue is part of what is wanted, the system's own ones included."""
        return any(each.name == queue for each in self.topology.queues)

    def doubt(self) -> None:
        """Something may be missing: it is not fresh any more, however soon."""
        self._declared_at = None

    def note(self, declared: Topology, found: Declared, *, began: float) -> None:
        """Note what a declaration found. What differs or is refused is told in the log, once."""
        with self._lock:
            for difference in found.differences:
                if difference not in self._found.differences:
                    log.warning("%s", difference, extra={"action": "topology.difference"})
            for refusal in found.refusals:
                if refusal not in self._found.refusals:
                    log.warning("Cannot use %s", refusal, extra={"action": "topology.refusal"})
            self._found = found
            self._declared_at = began if declared == self.topology else None

"""The topology that one process needs, and the result of its last declaration. No I/O here."""

import logging
import threading
import time
from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from cronhare.domain.topology import MAIN_QUEUE, Topology, checked_queue, topology

from ..wire.versions import CLASSIC, QUORUM, queue_arguments
from .declaration import Declared, Difference

log = logging.getLogger(__name__)

#: Seconds in which a lost connection is no reason to declare again: some 60 round trips each time.
FRESH = 10.0


class DesiredTopology:
    """What is to be declared, and what its last declaration found. Safe to share by threads."""

    def __init__(
        self,
        *,
        retry_delay: timedelta,
        queues: Iterable[str],
        queue_type: str,
        deduplication: bool,
    ) -> None:
        """Nothing is declared yet.

        Raises:
            ValueError: a queue cannot have that name, or *queue_type* is none of ours.
        """
        if queue_type not in (QUORUM, CLASSIC):
            raise ValueError(f"queue type {queue_type!r}: there are {QUORUM} and {CLASSIC}")
        self.arguments_of = partial(
            queue_arguments, queue_type=queue_type, deduplication=deduplication
        )
        self._found = Declared()
        self._retry_delay = retry_delay
        self._lock = threading.Lock()
        self._queues: dict[str, None] = {}
        self._declared_at: float | None = None
        self.add_queues(queues)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What exists otherwise than we would declare it, as of the last declaration."""
        return self._found.differences

    @property
    def topology(self) -> Topology:
        """All that is to be declared."""
        return topology(retry_delay=self._retry_delay, queues=self._queues or (MAIN_QUEUE,))

    @property
    def is_fresh(self) -> bool:
        """Whether it was declared within `FRESH`, and was not invalidated since."""
        done_at = self._declared_at
        return done_at is not None and time.monotonic() - done_at < FRESH

    def add_queues(self, queues: Iterable[str]) -> None:
        """Declare these task queues too, from the next declaration on.

        Raises:
            ValueError: a queue cannot have that name.
        """
        with self._lock:
            desired = self._queues | dict.fromkeys(map(checked_queue, queues))
            if desired != self._queues:
                self._queues, self._declared_at = desired, None

    def includes(self, queue: str) -> bool:
        """Whether a queue is part of it, the system's own ones included."""
        return any(each.name == queue for each in self.topology.queues)

    def invalidate(self) -> None:
        """Something may be missing: it is not fresh any more."""
        self._declared_at = None

    def note(self, declared: Topology, found: Declared, *, began: float) -> None:
        """Note what a declaration found. Each new difference or refusal is logged."""
        with self._lock:
            for difference in found.differences:
                if difference not in self._found.differences:
                    log.warning("%s", difference, extra={"action": "topology.difference"})
            for refusal in found.refusals:
                if refusal not in self._found.refusals:
                    log.warning("Cannot use %s", refusal, extra={"action": "topology.refusal"})
            self._found = found
            self._declared_at = began if declared == self.topology else None

"""Renewing the leases of running attempts, in a thread that no task can block."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lease_times import given_up_after
from cronhare.ports.attempts import AttemptStorePort
from cronhare.ports.errors import LedgerUnavailable
from cronhare.ports.runner import StopReason
from cronhare.ports.system import SILENT, ClockPort, MetricsPort

from ..logs import say

log = logging.getLogger(__name__)

Stop = Callable[[int, StopReason], object]

ROW_LOCKED = "somebody else keeps its row locked"


@attrs.define(kw_only=True, eq=False)
class Lease:
    """One attempt's lease. *over* once its task has ended: nothing is left to stop.

    *renewed_at* is a monotonic time, taken before the ledger was asked. *busy* while another
    session keeps its row locked.
    """

    attempt: int
    renewed_at: float
    busy: bool = False
    over: bool = False
    stopped_for: StopReason | None = None


class LeaseKeeper:
    """Renews all leases of a node in one statement, and stops attempts whose lease is lost.

    An attempt whose lease could not be renewed for two thirds of its length is stopped: it is gone
    by the time the lease lapses and another node starts the next attempt.

    After a leap of the stopwatch, such as a suspend, one renewal is tried first, for up to a third
    of a lease; its answer tells which leases another node has taken.
    """

    def __init__(
        self,
        *,
        attempts: AttemptStorePort,
        clock: ClockPort,
        node: str,
        lease: timedelta,
        stop: Stop,
        metrics: MetricsPort = SILENT,
    ) -> None:
        """*stop* is called from the thread that calls `renew`; it must be safe there."""
        self._attempts = attempts
        self._clock = clock
        self._node = node
        self._lease = lease
        self._third = lease.total_seconds() / 3
        self._margin = given_up_after(lease).total_seconds()
        self._stop = stop
        self._metrics = metrics
        self._lock = threading.Lock()
        self._looked_at: float | None = None
        self._leapt_at: float | None = None  # until a later renewal is answered
        self._leases: dict[int, Lease] = {}

    def hold(self, execution: Execution, *, since: float) -> None:
        """Keep the lease of an attempt, which was asked for at *since*, a monotonic time in s."""
        lease = Lease(attempt=execution.attempt, renewed_at=since)
        with self._lock:
            self._leases[execution.id] = lease

    def is_fresh(self, since: float) -> bool:
        """Tell whether two thirds are left of a lease that was asked for at *since*."""
        return self._clock.monotonic() - since < self._third

    def is_in_time(self, since: float) -> bool:
        """Tell whether a task may begin on it: after its margin a lease is given up."""
        return self._clock.monotonic() - since < self._margin

    @property
    def held(self) -> frozenset[int]:
        """The executions whose leases are kept."""
        with self._lock:
            return frozenset(self._leases)

    @property
    def ended(self) -> frozenset[int]:
        """Those of them whose tasks have ended, and whose results are not recorded."""
        with self._lock:
            return frozenset(id_ for id_, lease in self._leases.items() if lease.over)

    def ages(self) -> Sequence[tuple[int, int, float]]:
        """List the leases: execution, attempt, and seconds since the renewal."""
        now = self._clock.monotonic()
        with self._lock:
            leases = dict(self._leases)
        return [(id_, lease.attempt, now - lease.renewed_at) for id_, lease in leases.items()]

    def has_ended(self, execution: Execution) -> None:
        """Keep the lease until the result is recorded, but do not stop what is over."""
        with self._lock:
            lease = self._leases.get(execution.id)
            if lease is not None and lease.attempt == execution.attempt:
                lease.over = True

    def release(self, execution: Execution) -> None:
        """Let an attempt's lease go. The lease of a later attempt stays."""
        with self._lock:
            lease = self._leases.get(execution.id)
            if lease is not None and lease.attempt == execution.attempt:
                del self._leases[execution.id]

    def renew(self) -> None:
        """Renew all leases. To be called a few times within the length of one."""
        asked_at = self._clock.monotonic()
        with self._lock:
            leases = dict(self._leases)
        if not leases:
            return
        try:
            renewal = self._attempts.renew(
                leases.keys(), now=self._clock.now(), node=self._node, lease=self._lease
            )
        except LedgerUnavailable as error:
            self._give_up_old(leases, str(error))
            return
        self._note_answer(asked_at, for_all=not renewal.busy)
        for id_, lease in leases.items():
            lease.busy = id_ in renewal.busy
            if lease.busy:
                continue
            if id_ not in renewal.held:
                self._end(id_, lease, StopReason.LEASE_LOST, "another node decided in its place")
                continue
            lease.renewed_at = asked_at
            if id_ in renewal.cancel_requested:
                self._end(id_, lease, StopReason.CANCELLED, "somebody asked for its end")
        if renewal.busy:
            self._give_up_old({id_: leases[id_] for id_ in renewal.busy}, ROW_LOCKED)

    def watch(self) -> None:
        """Stop what could not be renewed in time. To be called beside `renew`.

        A silent ledger may block `renew` for longer than a short lease lasts.
        """
        with self._lock:
            leases = dict(self._leases)
        self._give_up_old(leases, "the ledger has not answered yet")

    def _give_up_old(self, leases: Mapping[int, Lease], why: str) -> None:
        now = self._clock.monotonic()  # anew: the call may have taken long to fail
        if self._has_just_leapt(now):
            return
        for id_, lease in leases.items():
            if now - lease.renewed_at >= self._margin:
                text = f"its lease cannot be renewed: {ROW_LOCKED if lease.busy else why}"
                self._end(id_, lease, StopReason.LEASE_LOST, text)

    def _has_just_leapt(self, now: float) -> bool:
        """Tell whether to wait for a renewal after a leap: once, for a third of a lease."""
        with self._lock:
            looked_at, self._looked_at = self._looked_at, now
            has_leapt = looked_at is not None and now - looked_at >= self._third
            if has_leapt and self._leapt_at is None:
                self._leapt_at = now
            return self._leapt_at is not None and now - self._leapt_at < self._third

    def _note_answer(self, asked_at: float, *, for_all: bool) -> None:
        """End a leap once all leases were renewed, or a third of a lease after it.

        After that it is over for locked rows as well: the next leap is another one.
        """
        with self._lock:
            leapt_at = self._leapt_at
            if leapt_at is not None and leapt_at <= asked_at - (0 if for_all else self._third):
                self._leapt_at = None

    def _end(self, execution_id: int, lease: Lease, reason: StopReason, why: str) -> None:
        with self._lock:
            if self._leases.get(execution_id) is not lease or lease.over:
                return
            is_news, lease.stopped_for = lease.stopped_for is not reason, reason
        if is_news and reason is StopReason.LEASE_LOST:
            self._metrics.lease_lost()
        if is_news:
            text = f"Stopping execution {execution_id}: {why}"
            place: dict[str, Any] = {"execution": execution_id, "attempt": lease.attempt}
            say(log, logging.WARNING, "attempt.stop", text, **place)
        self._stop(execution_id, reason)

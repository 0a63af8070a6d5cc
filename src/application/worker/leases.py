"""What runs here: its leases are renewed, its output stored, in threads that no task can block."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.nodes import given_up_after, renewed_every
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import AttemptStorePort
from cronhare.ports.runner import StopReason, TaskRunnerPort, Written
from cronhare.ports.system import SILENT, ClockPort, MetricsPort

from ..logs import say

log = logging.getLogger(__name__)

ROW_LOCKED = "somebody else keeps its row locked"


@attrs.define(kw_only=True, eq=False)
class Running:
    """An attempt that this worker has begun, until its end is recorded: all that is known of it.

    *renewed_at* is a monotonic time, taken before the ledger was asked. *busy* while another
    session keeps its row locked. *over* once its task has ended: nothing is left to stop.
    *earlier* is an attempt of the same execution that was lost here while the process stood still.
    """

    execution: Execution
    renewed_at: float
    earlier: "Running | None" = None
    busy: bool = False
    over: bool = False
    stopped_for: StopReason | None = None
    ended: asyncio.Event | None = None  # made by who waits for it


@attrs.define(kw_only=True, eq=False)
class LeaseKeeper:
    """Renews all leases of a node in one statement, and stops attempts whose lease is lost.

    An attempt whose lease could not be renewed for two thirds of its length is stopped: it is gone
    by the time the lease lapses and another node starts the next attempt.

    After a leap of the stopwatch, such as a suspend, one renewal is tried first, for up to a third
    of a lease; its answer tells which leases another node has taken.

    *stop* is called from the thread that calls `renew`; it must be safe there.
    """

    _attempts: AttemptStorePort
    _clock: ClockPort
    _node: str
    _lease: timedelta
    _stop: Callable[[int, StopReason], object]
    _metrics: MetricsPort = SILENT
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _looked_at: float | None = attrs.field(init=False, default=None)
    #: None once a later renewal is answered.
    _leapt_at: float | None = attrs.field(init=False, default=None)
    _running: dict[int, Running] = attrs.field(init=False, factory=dict[int, Running])

    @property
    def _third(self) -> float:
        return self._lease.total_seconds() / 3

    def hold(self, execution: Execution, *, since: float) -> Running:
        """Keep the lease of an attempt, which was asked for at *since*, a monotonic time in s."""
        with self._lock:
            earlier = self._running.get(execution.id)
            running = Running(execution=execution, renewed_at=since, earlier=earlier)
            self._running[execution.id] = running
        return running

    def is_fresh(self, since: float) -> bool:
        """Tell whether two thirds are left of a lease that was asked for at *since*."""
        return self._clock.monotonic() - since < self._third

    def is_in_time(self, since: float) -> bool:
        """Tell whether a task may begin on it: after its margin a lease is given up."""
        return self._clock.monotonic() - since < given_up_after(self._lease).total_seconds()

    @property
    def running(self) -> Sequence[Running]:
        with self._lock:
            return tuple(self._running.values())

    def age(self, running: Running) -> float:
        return self._clock.monotonic() - running.renewed_at

    def has_ended(self, running: Running) -> None:
        """Keep the lease until the result is recorded, but do not stop what is over."""
        running.over = True
        if running.ended is not None:
            running.ended.set()

    def release(self, running: Running) -> None:
        """Let an attempt's lease go. The lease of a later attempt stays."""
        self.has_ended(running)
        id_ = running.execution.id
        with self._lock:
            if self._running.get(id_) is running:
                del self._running[id_]

    def renew(self) -> float:
        """Renew all leases; answers how many seconds to rest."""
        if leases := self.running:
            self._renew(leases)
        return renewed_every(self._lease).total_seconds()

    def _renew(self, leases: Sequence[Running]) -> None:
        asked_at = self._clock.monotonic()
        ids = [each.execution.id for each in leases]
        try:
            renewal = self._attempts.renew(
                ids, now=self._clock.now(), node=self._node, lease=self._lease
            )
        except LedgerUnavailable as error:
            self._give_up_old(leases, str(error))
            return
        self._note_answer(asked_at, for_all=not renewal.busy)
        for id_, each in zip(ids, leases, strict=True):
            each.busy = id_ in renewal.busy
            if each.busy:
                continue
            if id_ not in renewal.held:
                self._end(each, StopReason.LEASE_LOST, "another node decided in its place")
                continue
            each.renewed_at = asked_at
            if id_ in renewal.cancel_requested:
                self._end(each, StopReason.CANCELLED, "somebody asked for its end")
        if renewal.busy:
            self._give_up_old([each for each in leases if each.busy], ROW_LOCKED)

    def watch(self) -> float:
        """Stop what could not be renewed in time; answers how many seconds to rest.

        It is called beside `renew`, which a silent ledger may block for longer than a lease lasts.
        """
        self._give_up_old(self.running, "the ledger has not answered yet")
        return renewed_every(self._lease).total_seconds()

    def _give_up_old(self, leases: Sequence[Running], why: str) -> None:
        now = self._clock.monotonic()  # anew: the call may have taken long to fail
        margin = given_up_after(self._lease).total_seconds()
        if self._has_just_leapt(now):
            return
        for each in leases:
            if now - each.renewed_at >= margin:
                text = f"its lease cannot be renewed: {ROW_LOCKED if each.busy else why}"
                self._end(each, StopReason.LEASE_LOST, text)

    def _has_just_leapt(self, now: float) -> bool:
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

    def _end(self, running: Running, reason: StopReason, why: str) -> None:
        id_, attempt = running.execution.id, running.execution.attempt
        with self._lock:
            if self._running.get(id_) is not running or running.over:
                return
            is_news, running.stopped_for = running.stopped_for is not reason, reason
        if is_news:
            if reason is StopReason.LEASE_LOST:
                self._metrics.lease_lost()
            text = f"Stopping execution {id_}: {why}"
            say(log, logging.WARNING, "attempt.stop", text, execution=id_, attempt=attempt)
        self._stop(id_, reason)


#: Seconds between two rounds. An attempt that ends before its second round costs nothing.
EVERY = 2.0
#: Bytes of output that a round writes; the attempt that waited longest comes first.
MOST_BYTES = 256 * 1024


@attrs.define(kw_only=True, eq=False)
class OutputKeeper:
    """Stores the output of attempts that ran in the round before, too: people may read it."""

    _attempts: AttemptStorePort
    _clock: ClockPort
    _node: str
    _keeper: LeaseKeeper
    _read: Callable[[Mapping[int, int]], Sequence[Written]]
    _stored: dict[tuple[int, int], int] = attrs.field(init=False, factory=dict)

    def round(self) -> float:
        """Store what is new; answers how many seconds to rest."""
        running = {
            (each.execution.id, each.execution.attempt)
            for each in self._keeper.running
            if not each.over  # its end has all that it wrote
        }
        seen = {place: stored for place, stored in self._stored.items() if place in running}
        self._stored = seen | dict.fromkeys(running - seen.keys(), 0)
        asked = {id_: stored for (id_, _), stored in seen.items()}
        now = self._clock.now()  # before the read: the output is no older than this
        if asked and (written := self._read(asked)):
            self._attempts.keep_written(written, now=now, node=self._node)
            for one in written:
                place = one.execution_id, one.attempt
                if self._stored.pop(place, None) is not None:
                    self._stored[place] = one.mark
        return EVERY


def read_new_output(runner: TaskRunnerPort, stored: Mapping[int, int]) -> list[Written]:
    """Read what attempts wrote and reported beyond the marks that are *stored*: `MOST_BYTES`."""
    found: list[Written] = []
    room = MOST_BYTES
    for id_, known in stored.items():
        if room <= 0:
            break
        if (one := runner.written(id_, beyond=known)) is not None:
            found.append(one)
            room -= one.kept
    return found

"""Reporting this process to the ledger, again and again, for `cronhare nodes list`."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Protocol

import attrs

from cronhare.domain.nodes import (
    BETWEEN_FILES,
    DISCONNECTED_AFTER,
    FORGOTTEN_AFTER,
    REPORT_EVERY,
    NodeReport,
)
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.ports import LedgerRefused, LedgerUnavailable
from cronhare.ports.attempts import NodeStorePort

#: Seconds that a process waits, at its end, until its report is taken back.
LEAVING = 1.0


class LedgersClock(Protocol):
    """The ledger's time, and how far this node's clock is ahead of it."""

    def now(self) -> datetime:
        """The ledger's time."""
        ...

    def measure(self) -> timedelta:
        """Ask the ledger, and say how far this node's clock is ahead."""
        ...


@attrs.define(kw_only=True)
class Heartbeat:
    """Writes the reports of one node; *running* counts its attempts. See `NodeReport`.

    *told* is called with each report, and whether the node is to be drained. That is reported in
    turn: the ledger may have forgotten the node while it was away.
    *is_connected* says whether what its queues bring gets here; None where it runs no tasks.
    *left_out* names those of its queues that bring nothing though it is connected. One that has
    been left out for `DISCONNECTED_AFTER` is none that it serves, and is not reported.
    *files* gives the versions of jobs file and app that were read last.
    *offset* is how far this node's clock is ahead of the ledger's, as it was last measured.
    """

    nodes: NodeStorePort
    clock: LedgersClock
    name: str
    role: str
    host: str
    version: str
    queues: tuple[str, ...]
    concurrency: int | None = None
    running: Callable[[], int | None] = lambda: None
    consuming: Callable[[], bool | None] = lambda: None
    is_connected: Callable[[], bool] | None = None
    left_out: Callable[[], Collection[str]] = tuple
    told: Callable[[bool], None] = lambda _: None
    files: Callable[[], Sequence[FileVersion]] = tuple
    offset: timedelta | None = attrs.field(init=False, default=None)
    _began: datetime | None = attrs.field(init=False, default=None)
    _drained_at: datetime | None = attrs.field(init=False, default=None)
    _consumed_at: datetime | None = attrs.field(init=False, default=None)
    _left_out: dict[str, datetime] = attrs.field(init=False, factory=dict[str, datetime])

    def round(self) -> float:
        """Report once; answers how many seconds to rest. The loops that work log a failure."""
        with suppress(LedgerUnavailable, LedgerRefused):
            offset, now = self.clock.measure(), self.clock.now()
            self.offset = offset
            self._began = self._began or now
            if self.is_connected is not None and (self._consumed_at is None or self.is_connected()):
                self._consumed_at = now
                self._left_out = {each: self._left_out.get(each, now) for each in self.left_out()}
            since, files = now - DISCONNECTED_AFTER, self.files()
            report = NodeReport(
                name=self.name,
                role=self.role,
                host=self.host,
                version=self.version,
                started_at=self._began,
                seen_at=now,
                queues=tuple(one for one in self.queues if self._left_out.get(one, now) > since),
                concurrency=self.concurrency,
                running=self.running(),
                clock_offset=offset,
                consuming=self.consuming(),
                drain_asked_at=self._drained_at,
                consumed_at=self._consumed_at,
                source=BETWEEN_FILES.join(each.source for each in files) or None,
                digest=BETWEEN_FILES.join(each.digest for each in files) or None,
            )
            drained = self.nodes.report(report, kept_for=FORGOTTEN_AFTER)
            self._drained_at = (self._drained_at or now) if drained else None
            self.told(drained)
        return REPORT_EVERY.total_seconds()

    def leave(self) -> None:
        """Take the report back: who ends in good order is not missed. A failure is not logged."""
        with suppress(LedgerUnavailable, LedgerRefused):
            self.nodes.remove(self.name)

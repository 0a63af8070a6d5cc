"""Counting what a process does, for monitoring."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # Here: each process has one that is `SILENT`, whatever it does.
    from cronhare.domain.execution import Execution, State
    from cronhare.domain.retries.outcome import Ending
    from cronhare.domain.schedules.skip_reasons import SkipKind

    from .broker import Published


class MetricsPort(Protocol):
    """Takes note of events. It never raises, never waits for a server, and keeps no execution.

    Any thread may call it. A call costs microseconds, however many executions it is about.
    """

    def ticked(self) -> None:
        """Due instants were looked for, and the ledger answered."""
        ...

    def claimed(self, executions: "Sequence[Execution]", *, now: datetime) -> None:
        """These were claimed at *now*."""
        ...

    def skipped(self, instants: "Mapping[SkipKind, int]") -> None:
        """So many due instants were recorded as skipped."""
        ...

    def published(self, executions: "Sequence[Execution]", outcomes: "Sequence[Published]") -> None:
        """The messages of these were published just now, each with its outcome."""
        ...

    def resent(self, executions: int) -> None:
        """The messages of so many executions were overdue, and are sent again."""
        ...

    def lost(self, attempts: int) -> None:
        """So many attempts were given up for lost."""
        ...

    def started(self, execution: "Execution") -> None:
        """The ledger let an attempt begin."""
        ...

    def attempt_ended(self, ending: "Ending", *, seconds: float) -> None:
        """An attempt has ended, after so long."""
        ...

    def recorded(self, state: "State") -> None:
        """The ledger recorded an end, and what follows from it."""
        ...

    def superseded(self) -> None:
        """The ledger did not take an end."""
        ...

    def fenced(self) -> None:
        """A delivery was not started again."""
        ...

    def lease_lost(self) -> None:
        """A running attempt is stopped, as its lease is lost."""
        ...

    def quarantined(self) -> None:
        """A delivery was put into quarantine."""
        ...


class SilentMetrics:
    """Counts nothing: nobody asks this process. Satisfies `MetricsPort`."""

    def ticked(self) -> None:
        """Do nothing."""

    def claimed(self, executions: "Sequence[Execution]", *, now: datetime) -> None:
        """Do nothing."""

    def skipped(self, instants: "Mapping[SkipKind, int]") -> None:
        """Do nothing."""

    def published(self, executions: "Sequence[Execution]", outcomes: "Sequence[Published]") -> None:
        """Do nothing."""

    def resent(self, executions: int) -> None:
        """Do nothing."""

    def lost(self, attempts: int) -> None:
        """Do nothing."""

    def started(self, execution: "Execution") -> None:
        """Do nothing."""

    def attempt_ended(self, ending: "Ending", *, seconds: float) -> None:
        """Do nothing."""

    def recorded(self, state: "State") -> None:
        """Do nothing."""

    def superseded(self) -> None:
        """Do nothing."""

    def fenced(self) -> None:
        """Do nothing."""

    def lease_lost(self) -> None:
        """Do nothing."""

    def quarantined(self) -> None:
        """Do nothing."""


SILENT: MetricsPort = SilentMetrics()

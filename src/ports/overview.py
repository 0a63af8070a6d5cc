"""What is looked at often, beside however many schedules and runs: each question is bounded."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import attrs

from cronhare.domain.execution import State


@attrs.frozen(kw_only=True)
class Run:
    """What a picture of many executions needs of one; see `Execution`."""

    id: int
    state: State
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int

    @property
    def seconds(self) -> float | None:
        """From its first start to its end, with the waits between attempts."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0.0, (self.finished_at - self.started_at).total_seconds())


@attrs.frozen
class Coming:
    """A schedule's next due instant."""

    name: str
    due_at: datetime


class OverviewPort(Protocol):
    """Asks for many at once. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_overview_contract.py does not assert is not promised.
    """

    def recent(self, scheduler_ids: Collection[int], *, each: int) -> Mapping[int, Sequence[Run]]:
        """List the newest runs of schedules, oldest first, at most *each* of one.

        Those that have not ended are the newest; skipped ones are here as well. A schedule that has
        none is left out.
        """
        ...

    def coming(self, since: datetime, until: datetime, *, limit: int) -> Sequence[Coming]:
        """List the schedules that are due next from *since* on, before *until*, the first first.

        The system's own are left out.
        """
        ...

    def count_coming(self, since: datetime, until: datetime) -> Mapping[datetime, int]:
        """Count schedules by their next due instant, from *since* on, before *until*.

        The system's own count here.
        """
        ...

    def count_unplanned(self, *, most: int) -> int:
        """Count the enabled schedules of which no scheduler has seen the newest edit, up to *most*.

        The system's own are left out. The cost grows with the number of schedules.
        """
        ...

    def waiting(self, since: datetime, *, limit: int) -> Sequence[int]:
        """List executions that were due before *since*, and have not begun: in no order."""
        ...

    def count(self, states: Collection[State], *, most: int) -> Mapping[State, int]:
        """Count executions by their state, up to *most* of each."""
        ...

    def count_unresolved(self, *, most: int) -> int:
        """Count the failures that nobody has dealt with, up to *most*."""
        ...

    def count_alerts(self, *, most: int) -> int:
        """Count the alerts that hold among *most* rows of such: those that can be listed."""
        ...

"""The in-memory ledger: the tables that its adapters share, and their lock.

It keeps the promises of the ports, but not beyond its process. Start reading at `claims.py`.
"""

from datetime import datetime
from itertools import count
from threading import RLock
from typing import Any

import attrs

from cronhare.domain.access.audit import AuditEntry
from cronhare.domain.access.sessions import Session
from cronhare.domain.access.tokens import Token
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.alerts import RaisedAlert
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.claims import claim_by_hand, refuse_beside
from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.lifecycle.replay_pace import Replay
from cronhare.domain.nodes import NodeReport
from cronhare.domain.retries.breaker import Breaker
from cronhare.domain.retries.budget import Budget
from cronhare.domain.retries.redeliveries import Hold
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.owner import NOBODY, OWNER_FIELDS, ScheduleOwner
from cronhare.domain.schedules.schedule import CLEANUP_NAME
from cronhare.domain.schedules.standalone import is_standalone
from cronhare.domain.schedules.task import SYSTEM, TaskRef
from cronhare.ports.clock import ClockPort
from cronhare.ports.records import Unheard

from .execution_table import ExecutionTable
from .gates import GateTable
from .schedule_table import ScheduleTable

#: The system's own schedule: claimed like any other, so that one replica does it.
CLEANUP = ScheduleDraft(
    name=CLEANUP_NAME,
    task=TaskRef(SYSTEM, 1),
    schedule="0 3 * * *",
    description="deletes history that is older than its retention",
)


class MemoryLedger:
    """The tables. An adapter's method holds the lock throughout: that is its transaction."""

    def __init__(self, clock: ClockPort) -> None:
        """Begin with the system's own schedule only."""
        self.clock = clock
        self.lock = RLock()
        self.schedules = ScheduleTable()
        self.executions = ExecutionTable()
        self.gates = GateTable(self.executions, self.schedules)
        self.archive: dict[int, Archived] = {}
        self.nodes: dict[str, NodeReport] = {}
        self.budgets: dict[str, Budget] = {}
        self.breakers: dict[str, Breaker] = {}
        self.unheard: dict[str, Unheard] = {}
        self.outbox: dict[int, OutboxRow] = {}
        self.outbox_ids = count(1)
        #: Alerts by their keys, and when judging those of a source began and ended last.
        self.alerts: dict[str, RaisedAlert] = {}
        self.alerts_begun_at: dict[str | None, datetime] = {}
        self.alerts_judged_of: dict[str | None, datetime] = {}  # when those that ended began
        self.alerts_judged_at: dict[str | None, datetime] = {}
        self.holds: dict[str, dict[str, Hold]] = {}
        self.replays: dict[int, Replay] = {}
        self.audit: dict[int, AuditEntry] = {}
        self.audit_ids = count(1)
        self.tokens: dict[str, Token] = {}
        self.sessions: dict[str, Session] = {}
        self._archive_ids = count(1)
        self.schedules.save(CLEANUP, source=None, now=clock.now())

    def claim_by_hand(
        self,
        scheduler_id: int,
        *,
        key: str,
        alone: bool = False,
        **asked: Any,  # noqa: ANN401 - see the domain's
    ) -> Execution:
        """Claim a run that is not planned; an execution that has the key already is the answer.

        What stays alive has to be *alone*, where that is asked for.
        """
        known = self.executions.with_key(scheduler_id, key)
        if known is not None:
            return known
        row = self.schedules.row(scheduler_id)
        schedule = None if row is None else row.schedule
        run = claim_by_hand(schedule, scheduler_id, key=key, **asked)
        if alone and is_standalone(run.queue):
            refuse_beside(self.executions.unfinished_of(scheduler_id))
        inserted = self.executions.insert(run)
        assert inserted is not None, "the key was free a moment ago, under the same lock"
        return inserted

    def owner_of(self, scheduler_id: int) -> ScheduleOwner:
        """Give the owner of a schedule."""
        row = self.schedules.row(scheduler_id)
        if row is None:
            return NOBODY
        return ScheduleOwner(**{name: getattr(row.draft, name) for name in OWNER_FIELDS})

    def keep(self, archived: Archived) -> Archived:
        """Insert a row of the archive with an id."""
        kept = attrs.evolve(archived, id=next(self._archive_ids))
        self.archive[kept.id] = kept
        return kept

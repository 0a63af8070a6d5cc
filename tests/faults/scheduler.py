"""A scheduler as `cronhare scheduler` runs it, with what no setting offers: short graces, death.

    python -m tests.faults.scheduler [POINT]

With a point it kills itself there, as kill -9 would, as soon as a busy minute comes. Without one
nothing is added to it but the graces.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, event

from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.sql.claims.store import SqlClaimStore
from cronhare.domain.execution import Execution, Graces
from cronhare.domain.retries.limits import BudgetPolicy
from cronhare.domain.schedules.planning import Plan, Planned, Planner
from cronhare.entrypoints.cli.app import main
from cronhare.entrypoints.working import WorkingContainer
from cronhare.ports.broker import Envelope, Published
from cronhare.ports.claims import Batch
from cronhare.ports.system import ClockPort

#: So soon something late is sent again here. A message that is only slow is then sent twice: the
#: fences have more to do than with the graces of everyday.
GRACES = Graces(
    claimed=timedelta(seconds=2), retrying=timedelta(seconds=1), published=timedelta(seconds=5)
)

#: So many executions at once are a busy minute.
MANY = 50

TAKEN = "taken"
INSERTED = "inserted"
COMMITTED = "committed"
HALF_PUBLISHED = "half-published"
CONFIRMED = "confirmed"

#: Where a scheduler can die between a due instant and its message in a queue.
POINTS = (TAKEN, INSERTED, COMMITTED, HALF_PUBLISHED, CONFIRMED)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class MortalClaims(SqlClaimStore):
    """Dies at one of the points around the claim."""

    def __init__(
        self,
        engine: Engine,
        clock: ClockPort,
        *,
        judge: str,
        late: BudgetPolicy | None,
        point: str,
    ) -> None:
        super().__init__(engine, clock, judge=judge, late=late)
        self._point = point
        self._planned = threading.local()  # publishing may go on beside, in another thread
        event.listen(engine, "commit", self._on_commit)

    def claim_due(
        self,
        *,
        now: datetime,
        limit: int,
        node: str,
        planner: Planner,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Batch:
        def counting(planned: Planned) -> Plan:
            self._planned.many += 1
            if self._point == TAKEN and self._planned.many == MANY:
                die()
            return planner(planned)

        self._planned.many = 0
        batch = super().claim_due(
            now=now, limit=limit, node=node, planner=counting, since=since, until=until
        )
        self._planned.many = 0
        if self._point == COMMITTED and len(batch.claimed) >= MANY:
            die()
        return batch

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        if self._point == CONFIRMED and len(executions) >= MANY:
            die()
        super().mark_published(executions, now=now)

    def _on_commit(self, _connection: object) -> None:
        """Called before the database is asked to commit."""
        if self._point == INSERTED and getattr(self._planned, "many", 0) >= MANY:
            die()


class MortalBroker(PikaBroker):
    """Dies with half of a batch in the queue."""

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        if len(batch) >= MANY:
            super().publish(batch[: len(batch) // 2])
            die()
        return super().publish(batch)


def arm(container: type[WorkingContainer] | WorkingContainer, point: str) -> None:
    """Put into a container, or into all that are made from now on, what dies at *point*."""
    if point not in POINTS:
        raise SystemExit(f"there is no point {point}; there are {', '.join(POINTS)}")
    if point == HALF_PUBLISHED:
        broker: Any = container.broker.providers["amqp"]
        broker.set_provides(MortalBroker)
    else:
        container.claims.set_provides(MortalClaims)
        container.claims.add_kwargs(point=point)


def hurry(container: type[WorkingContainer] | WorkingContainer) -> None:
    container.reconciler.add_kwargs(graces=GRACES)


if __name__ == "__main__":
    hurry(WorkingContainer)
    for point in sys.argv[1:]:
        arm(WorkingContainer, point)
    sys.argv[1:] = ["scheduler"]
    main()

"""What people read from the ledger, and what they ask of it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import bindparam, func, select

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.claims import begins_by_hand
from cronhare.domain.lifecycle.transitions import cancel
from cronhare.ports.records import (
    Attempt,
    ExecutionFilter,
    Output,
    QueueLoad,
    Reported,
    Retention,
    Unheard,
)
from cronhare.ports.runner import Captured, TaskReport

from ..database import Store, repeatable
from ..tables.executions import (
    BY_IDS,
    CAPTURED,
    EXECUTION,
    REPORTED,
    batches,
    executions_of,
    find_executions,
    known_id,
)
from ..tables.tables import IDS, attempts, executions, outputs, topic_tallies
from ..tables.types import OwnTable, moment_of
from ..writing import write_changes
from .archive import ArchiveRecords
from .lists import newest

if TYPE_CHECKING:
    from cronhare.ports.inspection import LastClaim

ATTEMPT: Final = OwnTable(attempts)
OUTPUT: Final = OwnTable(outputs)
TALLY: Final = OwnTable(topic_tallies)

_ATTEMPTS = (
    select(attempts)
    .where(attempts.c.execution_id == bindparam("execution_id"))
    .order_by(attempts.c.attempt)
)
_OUTPUTS = (
    select(outputs)
    .where(
        outputs.c.execution_id == bindparam("execution_id"), outputs.c.attempt >= bindparam("since")
    )
    .order_by(outputs.c.attempt)
)

_REPORTED = (
    select(
        *outputs.c["execution_id", "attempt", "stdout_bytes", "stderr_bytes", "as_of"],
        *(outputs.c[name] for name in REPORTED),
    )
    .where(outputs.c.execution_id.in_(IDS))
    .order_by(outputs.c.execution_id, outputs.c.attempt)
)
_UNHEARD = select(topic_tallies).order_by(topic_tallies.c.topic)
#: So many executions are asked for in one statement.
_AT_ONCE = 1_000
_COVERING = (
    EXECUTION.where(
        executions.c.scheduler_id == bindparam("scheduler_id"),
        executions.c.state == State.SKIPPED.value,
        executions.c.due_at <= moment_of("instant"),
        func.coalesce(executions.c.last_due_at, executions.c.due_at) >= moment_of("instant"),
    )
    .order_by(executions.c.id.desc())
    .limit(1)
)


class SqlRecords(Store, ArchiveRecords):
    """Satisfies `RecordsPort`; the methods about the archive are inherited."""

    @repeatable
    def executions(self, which: ExecutionFilter) -> Sequence[Execution]:
        with self._database.read("listing executions") as connection:
            ids = newest(connection, which)
            if not ids:
                return ()
            found = executions_of(connection, connection.execute(BY_IDS, {"ids": ids}))
            return sorted(found, key=lambda execution: -execution.id)

    @repeatable
    def execution(self, execution_id: int) -> Execution | None:
        with self._database.read(f"reading execution {execution_id}") as connection:
            return find_executions(connection, BY_IDS, [execution_id]).get(execution_id)

    @repeatable
    def attempts(self, execution_id: int) -> Sequence[Attempt]:
        with self._database.read(f"reading the attempts of execution {execution_id}") as connection:
            rows = connection.execute(_ATTEMPTS, {"execution_id": known_id(execution_id)})
            return [Attempt(**msgspec.structs.asdict(each)) for each in ATTEMPT.readable(rows)]

    @repeatable
    def unheard(self, *, limit: int) -> Sequence[Unheard]:
        with self._database.read("reading which events nobody listened to") as connection:
            rows = TALLY.readable(connection.execute(_UNHEARD.limit(limit)))
        return [
            Unheard(topic=row.topic, count=row.no_listener, last_at=row.last_at) for row in rows
        ]

    @repeatable
    def output(self, execution_id: int, *, since: int = 1) -> Sequence[Output]:
        with self._database.read(f"reading the output of execution {execution_id}") as connection:
            asked = {"execution_id": known_id(execution_id), "since": since}
            rows = OUTPUT.readable(connection.execute(_OUTPUTS, asked))
        return [
            Output(
                attempt=row.attempt,
                stdout=_captured(row, "stdout"),
                stderr=_captured(row, "stderr"),
                as_of=row.as_of,
                report=_report(row),
            )
            for row in rows
        ]

    @repeatable
    def reported(self, execution_ids: Collection[int]) -> Sequence[Reported]:
        with self._database.read("reading what tasks have reported") as connection:
            return [
                Reported(
                    execution_id=row.execution_id,
                    attempt=row.attempt,
                    report=_report(row),
                    bytes=row.stdout_bytes + row.stderr_bytes,
                    as_of=row.as_of,
                )
                for ids in batches(list(map(known_id, execution_ids)), _AT_ONCE)
                for row in OUTPUT.readable(connection.execute(_REPORTED, {"ids": ids}))
            ]

    @repeatable
    def covering(self, scheduler_id: int, *, key: str, instant: datetime) -> Execution | None:
        from ..claims.plans import find_by_key  # noqa: PLC0415 - lists do without

        with self._database.read("looking for an instant") as connection:
            own = find_by_key(connection, scheduler_id, key)
            if own is not None:
                return own
            asked = {"scheduler_id": known_id(scheduler_id), "instant": instant}
            rows = connection.execute(_COVERING, asked)
            return next(iter(executions_of(connection, rows)), None)

    @repeatable
    def last_runs(self, scheduler_ids: Collection[int]) -> Mapping[int, Execution]:
        from ..gauges import last_runs  # noqa: PLC0415 - lists do without

        with self._database.read("looking for the last runs") as connection:
            return last_runs(connection, scheduler_ids)

    @repeatable
    def queues(self) -> Sequence[QueueLoad]:
        from ..gauges import loads  # noqa: PLC0415 - lists do without

        with self._database.read("counting what has not ended") as connection:
            return loads(connection)

    @repeatable
    def last_claim(self) -> "LastClaim | None":
        from ..gauges import last_claim  # noqa: PLC0415 - lists do without

        with self._database.read("looking for the newest claim") as connection:
            return last_claim(connection)

    @repeatable
    def run_now(
        self,
        scheduler_id: int,
        *,
        key: str,
        params: str | None,
        now: datetime,
        node: str,
        head_start: timedelta = timedelta(0),
    ) -> Execution:
        from ..claims.plans import claim_by_hand, find_by_key  # noqa: PLC0415 - lists do without

        changes: dict[str, Any] = {} if params is None else {"params": params}
        with self._database.write("claiming a manual run") as connection:
            asked_before = find_by_key(connection, scheduler_id, key)
            return asked_before or claim_by_hand(
                connection,
                scheduler_id,
                key=key,
                alone=True,
                now=now,
                node=node,
                begins=begins_by_hand(now, head_start=head_start),
                **changes,
            )

    @repeatable
    def cancel(self, execution_id: int, *, now: datetime) -> State | None:
        with self._database.write(f"cancelling execution {execution_id}") as connection:
            execution = find_executions(connection, BY_IDS.with_for_update(), [execution_id]).get(
                execution_id
            )
            if execution is None:
                return None
            after = cancel(execution, now=now)
            write_changes(connection, [(execution, after)])
            return after.state

    @repeatable
    def clean_up(self, *, now: datetime, retention: Retention) -> int:
        from .retention import clean_up  # noqa: PLC0415 - lists do without

        return clean_up(self._database, now=now, retention=retention)


def _report(row: Any) -> TaskReport:  # noqa: ANN401 - see `OwnTable.each`
    return TaskReport(**{name: getattr(row, name) for name in REPORTED})


def _captured(row: Any, stream: str) -> Captured:  # noqa: ANN401 - likewise
    return Captured(**{part: getattr(row, f"{stream}_{part}") for part in CAPTURED})

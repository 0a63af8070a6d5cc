"""Looking at the database behind the ledger, and at what its rows show of the nodes."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, Subquery, func, select

from cronhare.domain.diagnosis import (
    Activity,
    Cause,
    Late,
    LedgerFacts,
    NodeFacts,
    ScheduleFacts,
    SchemaFault,
    Unreachable,
)
from cronhare.domain.execution import State
from cronhare.domain.nodes import container_id
from cronhare.domain.schedules.keys import MANUAL
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerOutdated, LedgerUnavailable
from cronhare.ports.schedules import StoredSchedule

from ..claims.store import SqlClaimStore
from ..dialect import dialect_of
from ..migrations.upgrade import HEAD, check_schema
from ..schedules import SqlScheduleStore
from ..schema.tables import attempts, executions
from ..transactions.database import Database
from .overdue_runs import outstanding, quarantined, queues_in_use
from .scheduler_activity import NEWEST, last_claim, overdue

#: Nodes count as known if they did something in so short a time, among the newest rows.
RECENTLY: Final = timedelta(minutes=10)


class SqlInspection:
    """Satisfies `LedgerInspectionPort`."""

    def __init__(self, engine: Callable[[], Engine], clock: ClockPort) -> None:
        """*engine* makes the engine, by `open_engine`: even that may fail, and is to be told."""
        self._engine = engine
        self._clock = clock

    def inspect(self) -> LedgerFacts | Unreachable:
        """See `LedgerInspectionPort.inspect`."""
        try:
            engine = self._engine()
        except LedgerUnavailable as error:
            return Unreachable(Cause.OTHER, str(error))
        dialect = dialect_of(engine)
        try:
            return dialect.missing() or self._look(engine)
        except LedgerUnavailable as error:
            return Unreachable(dialect.errors.cause_of(error.__cause__), str(error))

    def _look(self, engine: Engine) -> LedgerFacts:
        database = Database(engine, self._clock)
        with database.read("examining the database") as connection:
            kept_in = database.dialect.facts(connection)
        skew = self._skew(database)
        try:
            check_schema(engine)
        except LedgerOutdated as error:
            return LedgerFacts(database=kept_in, schema=_fault(error), skew=skew)
        claims = SqlClaimStore(engine, self._clock)
        stored, now = SqlScheduleStore(engine, self._clock).schedules(), claims.now()
        with database.read("examining the nodes") as connection:
            nodes = tuple(_nodes(connection, now))
            waiting = tuple(outstanding(connection, now))
            queues = queues_in_use(connection)
            apart = quarantined(connection)
            late, claim = overdue(connection, now), last_claim(connection)
        return LedgerFacts(
            database=kept_in,
            schema=HEAD,
            skew=skew,
            activity=Activity(
                now=now,
                next_due=claims.next_due(),
                overdue=late,
                unplanned=_unplanned(stored),
                last_claim=claim,
                nodes=nodes,
                waiting=waiting,
                queues=queues,
                quarantined=apart,
            ),
            schedules=tuple(map(_schedule, stored)),
        )

    def _skew(self, database: Database) -> timedelta:
        """Ask on a connection that is there already; half of the way is taken off."""
        before = self._clock.monotonic()
        told = database.now()
        halfway = timedelta(seconds=(self._clock.monotonic() - before) / 2)
        return self._clock.now() - halfway - told


def _fault(error: LedgerOutdated) -> SchemaFault:
    """Part the sentence of `check_schema`, which ends with what to do."""
    what, _, cure = str(error).rpartition(": ")
    return SchemaFault(what, cure)


def _nodes(connection: Connection, now: datetime) -> Iterator[NodeFacts]:
    seen = _seen(connection, now - RECENTLY)
    running = (
        select(executions.c.owner, func.count(), func.max(executions.c.lease_until))
        .where(executions.c.state == State.RUNNING, executions.c.owner.is_not(None))
        .group_by(executions.c.owner)
    )
    held = {
        owner: (count, until if isinstance(until, datetime) else None)
        for owner, count, until in connection.execute(running)
        if isinstance(owner, str)
    }
    at_work = {container_id(owner) for owner in held}
    for name in sorted({*held, *(seen.keys() - at_work)}):
        count, until = held.get(name, (0, None))
        seen_at = seen.get(container_id(name))
        yield NodeFacts(name=name, running=count, lease_until=until, seen_at=seen_at)


def _seen(connection: Connection, since: datetime) -> dict[str, datetime]:
    """Tell which host and PID claimed or started something, and when last. People do not count."""
    claimed = (
        select(executions.c.container_id.label("node"), executions.c.executed_at.label("at"))
        .where(executions.c.execution_key.not_like(f"{MANUAL}%"))
        .order_by(executions.c.id.desc())
        .limit(NEWEST)
        .subquery()
    )
    started = (
        select(attempts.c.node, attempts.c.started_at.label("at"))
        .order_by(attempts.c.execution_id.desc())
        .limit(NEWEST)
        .subquery()
    )
    seen: dict[str, datetime] = {}
    for newest in (claimed, started):
        for name, at in connection.execute(_last(newest, since)):
            if isinstance(name, str) and isinstance(at, datetime):
                node = container_id(name)
                seen[node] = max(at, seen.get(node, at))
    return seen


def _last(newest: Subquery, since: datetime) -> Select[Any]:
    at = func.max(newest.c.at)
    return select(newest.c.node, at).where(newest.c.at >= since).group_by(newest.c.node)


def _unplanned(stored: Sequence[StoredSchedule]) -> Sequence[Late]:
    waiting = [
        Late(schedule.name, schedule.updated_at)
        for schedule in stored
        if not schedule.planned and schedule.draft is not None and schedule.draft.status
    ]
    return sorted(waiting, key=lambda late: late.since)


def _schedule(stored: StoredSchedule) -> ScheduleFacts:
    draft = stored.draft
    if draft is None:
        return ScheduleFacts(name=stored.name, task=None, problem=stored.problem or "unreadable")
    return ScheduleFacts(
        name=stored.name,
        task=draft.task,
        enabled=draft.status,
        queue=draft.queue,
        timeout=draft.timeout,
        problem=stored.problem,
        source=stored.source or None,
        task_name=draft.task_name,
    )

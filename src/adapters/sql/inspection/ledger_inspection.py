"""Examining the database, and what its rows show of schedulers and workers."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from sqlalchemy import Connection, Engine, func, select

from cronhare.domain.diagnosis.ledger import Activity, LedgerFacts, SchemaFault
from cronhare.domain.diagnosis.nodes import Owner
from cronhare.domain.diagnosis.servers import Cause, Unreachable
from cronhare.domain.execution import State
from cronhare.domain.nodes import MOST_REPORTS
from cronhare.ports.errors import LedgerOutdated, LedgerUnavailable
from cronhare.ports.system import ClockPort

from ..dialect import dialect_of
from ..gauges import awaited, earliest, last_claim, loads, outstanding, overdue, unresolved
from ..limits.store import SqlLimitStore
from ..migrations.upgrade import HEAD, check_schema
from ..nodes import SqlNodeStore
from ..schema.tables import executions
from ..transactions.database import Database
from .broken_rows import broken_rows
from .schedule_groups import schedules_seen
from .untold_targets import untold

#: Breakers, and budgets, that are looked at.
MOST_LIMITS: Final = 1_000


class SqlInspection:
    """Satisfies `LedgerInspectionPort`."""

    def __init__(self, engine: Callable[[], Engine], clock: ClockPort) -> None:
        """*engine* makes the engine by `open_engine`: a failure of that is reported, too."""
        self._engine = engine
        self._clock = clock

    def inspect(self) -> LedgerFacts | Unreachable:
        try:
            engine = self._engine()
        except LedgerUnavailable as error:
            return Unreachable(Cause.OTHER, str(error))
        dialect = dialect_of(engine)
        try:
            return dialect.missing() or self._look(engine)
        except LedgerUnavailable as error:
            cause = dialect.errors.cause_of(error.__cause__)
            return Unreachable(cause, str(error), dialect.errors.hint(cause))

    def _look(self, engine: Engine) -> LedgerFacts:
        database = Database(engine, self._clock)
        with database.read("examining the database") as connection:
            kept_in = database.dialect.facts(connection)
        skew = self._skew(database)
        try:
            check_schema(engine)
        except LedgerOutdated as error:
            return LedgerFacts(database=kept_in, schema=_fault(error), skew=skew)
        now = database.now()
        nodes = SqlNodeStore(engine, self._clock).nodes(now=now, limit=MOST_REPORTS)
        limits = SqlLimitStore(engine, self._clock)
        with database.read("examining the runs") as connection:
            owners = tuple(_owners(connection))
            unfinished = loads(connection)
            waiting = tuple(outstanding(connection, now, unfinished))
            failures, apart = unresolved(connection)
            waiting_for_tasks = awaited(connection)
            late, claim = overdue(connection, now), last_claim(connection)
            next_due = earliest(connection)
            seen = schedules_seen(connection)
            not_told, unsound = tuple(untold(connection)), tuple(broken_rows(connection))
        return LedgerFacts(
            database=kept_in,
            schema=HEAD,
            skew=skew,
            activity=Activity(
                now=now,
                next_due=next_due,
                overdue=late,
                unplanned=seen.unplanned,
                last_claim=claim,
                nodes=nodes.reports,
                unread_nodes=nodes.unread,
                broken_nodes=nodes.broken,
                owners=owners,
                waiting=waiting,
                queues={load.queue for load in unfinished},
                quarantined=apart,
                failures=failures,
                awaited=waiting_for_tasks,
                breakers=limits.breakers(limit=MOST_LIMITS),
                budgets=limits.budgets(limit=MOST_LIMITS),
                untold=not_told,
                broken_rows=unsound,
            ),
            schedules=seen.schedules,
            unread_schedules=seen.unread,
        )

    def _skew(self, database: Database) -> timedelta:
        """Ask on an open connection, and subtract half of the round trip."""
        before = self._clock.monotonic()
        told = database.now()
        halfway = timedelta(seconds=(self._clock.monotonic() - before) / 2)
        return self._clock.now() - halfway - told


def _fault(error: LedgerOutdated) -> SchemaFault:
    """Split the sentence of `check_schema`, which ends with what to do."""
    what, _, cure = str(error).rpartition(": ")
    return SchemaFault(what, cure)


def _owners(connection: Connection) -> Iterator[Owner]:
    running = (
        select(executions.c.owner, func.count(), func.max(executions.c.lease_until))
        .where(executions.c.state == State.RUNNING, executions.c.owner.is_not(None))
        .group_by(executions.c.owner)
        .order_by(executions.c.owner)
    )
    for owner, count, until in connection.execute(running):
        if isinstance(owner, str) and not isinstance(until, str):  # or its row is set apart
            yield Owner(name=owner, running=count, lease_until=until)

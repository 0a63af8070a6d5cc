"""What `doctor` looks for in the ledger."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, Table, and_, bindparam, case, func, or_, select

from cronhare.domain.diagnosis.ledger import Activity, LedgerFacts, SchemaFault
from cronhare.domain.diagnosis.nodes import Owner
from cronhare.domain.diagnosis.servers import Cause, Unreachable
from cronhare.domain.diagnosis.targets import UntoldTarget
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.events import UNTOLD, OutboxState
from cronhare.domain.lifecycle.pings import PING
from cronhare.domain.nodes import MOST_REPORTS
from cronhare.ports.errors import LedgerOutdated, LedgerUnavailable
from cronhare.ports.system import ClockPort

from ..audit import ENTRY
from ..database import Database
from ..dialect import dialect_of
from ..events.alerts import ALERT
from ..events.outbox import DELIVERY
from ..gauges import awaited, earliest, last_claim, loads, outstanding, overdue, unresolved
from ..limits import BREAKER, BUDGET, SqlLimitStore
from ..migrations.upgrade import HEAD, check_schema
from ..nodes import SqlNodeStore
from ..rows.changes import FAILURE
from ..rows.own import ATTEMPT, OUTPUT, REPLAY, TALLY, BrokenRow, OwnTable
from ..rows.schedules import PLAN
from ..schedules.lists import schedules_seen
from ..schema.tables import (
    alerts,
    attempts,
    audit,
    breakers,
    budgets,
    executions,
    failed_tasks,
    outbox,
    outputs,
    plans,
    replays,
    topic_tallies,
)

#: The newest rows of each table that are looked at.
MOST_READ: Final = 1_000

#: Reports of nodes are judged by themselves, and executions are set apart where they are met.
_LOOKED_AT: Final[tuple[tuple[Table, OwnTable], ...]] = (
    (alerts, ALERT),
    (attempts, ATTEMPT),
    (audit, ENTRY),
    (breakers, BREAKER),
    (budgets, BUDGET),
    (failed_tasks, FAILURE),
    (outbox, DELIVERY),
    (outputs, OUTPUT),
    (plans, PLAN),
    (replays, REPLAY),
    (topic_tallies, TALLY),
)


def broken_rows(connection: Connection) -> Iterator[str]:
    """Name table, row and column of each."""
    for table, own in _LOOKED_AT:
        newest = [key.desc() for key in table.primary_key]
        rows = connection.execute(select(table).order_by(*newest).limit(MOST_READ))
        yield from (str(each) for each in own.each(rows) if isinstance(each, BrokenRow))


#: Events that are counted, and targets that are named.
MOST_COUNTED: Final = 10_000
MOST_NAMED: Final = 100

#: Who was tried so often in vain, with one event or several, is named, though more tries come.
FAILING_FROM: Final = 3

_ROWS: Final = (
    select(
        outbox.c.id,
        outbox.c.target,
        outbox.c.source,
        func.coalesce(outbox.c.finished_at, outbox.c.occurred_at).label("at"),
        # Bounded row by row: of numbers that somebody wrote the sum may be none of the server's.
        case(
            (
                and_(
                    outbox.c.state == OutboxState.WAITING.value,
                    outbox.c.tries < FAILING_FROM,
                ),
                outbox.c.tries,
            ),
            else_=FAILING_FROM,
        ).label("tries"),
    )
    .where(
        or_(
            outbox.c.state.in_([each.value for each in UNTOLD]),
            and_(
                outbox.c.state == OutboxState.WAITING.value,
                outbox.c.tries > 0,
                outbox.c.last_error.is_not(None),
            ),
        ),
        outbox.c.event != PING,  # a start is told once, and nobody waits for it
    )
    .limit(MOST_COUNTED)
    .subquery()
)
_UNTOLD: Final[Select[Any]] = (
    select(
        _ROWS.c.target,
        _ROWS.c.source,
        func.count().label("events"),
        func.max(_ROWS.c.at).label("at"),
        func.max(_ROWS.c.id).label("newest"),
    )
    .group_by(_ROWS.c.target, _ROWS.c.source)
    .having(func.sum(_ROWS.c.tries) >= FAILING_FROM)
    .order_by(_ROWS.c.target, _ROWS.c.source)
    .limit(MOST_NAMED)
)
_ERROR: Final[Select[Any]] = select(outbox.c.last_error).where(outbox.c.id == bindparam("newest"))
#: By the index: what was told waits for no next try.
_TOLD_LAST: Final[Select[Any]] = (
    select(outbox.c.finished_at)
    .where(
        outbox.c.state == OutboxState.DELIVERED.value,
        outbox.c.target == bindparam("target"),
        outbox.c.next_try_at.is_(None),
        outbox.c.source == bindparam("source"),
    )
    .order_by(outbox.c.id.desc())
    .limit(1)
)


def untold(connection: Connection) -> Iterator[UntoldTarget]:
    """Name those that were not told, and have not heard of anything since."""
    for row in connection.execute(_UNTOLD).all():
        asked = {"target": row.target, "source": row.source}
        heard_at = connection.scalar(_TOLD_LAST, asked)
        if heard_at is not None and heard_at > row.at:
            continue
        error = connection.scalar(_ERROR, {"newest": row.newest})
        yield UntoldTarget(
            name=row.target,
            source=row.source,
            events=row.events,
            last_at=row.at,
            error=error or None,
        )


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

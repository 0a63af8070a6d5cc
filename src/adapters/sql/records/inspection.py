"""What `doctor` looks for in the ledger."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from msgspec.structs import asdict
from sqlalchemy import Connection, Engine, Select, and_, bindparam, case, func, or_, select

from cronhare.domain.events.outbox import PING, UNTOLD, OutboxState
from cronhare.domain.execution import WAITING, State
from cronhare.domain.lifecycle.retry_limits import CATCHES_UP
from cronhare.domain.nodes import MOST_REPORTS
from cronhare.domain.retries.retry import AWAITS_TASK
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from cronhare.ports.inspection import (
    Activity,
    Cause,
    LedgerFacts,
    Owner,
    Quarantined,
    SchemaFault,
    Unreachable,
    UntoldTarget,
)
from cronhare.ports.system import ClockPort

from ..access import ENTRY, TOKEN
from ..database import Database
from ..dialect import dialect_of
from ..events.alerts import ALERT
from ..events.outbox import DELIVERY
from ..gauges import NEWEST, last_claim, loads, outstanding, overdue
from ..limits import BREAKERS, BUDGETS, SqlLimitStore
from ..migrations.upgrade import HEAD, check_schema
from ..nodes import NODE, SqlNodeStore
from ..schedule_lists import schedules_seen
from ..tables.executions import in_states
from ..tables.schedules import PLAN
from ..tables.tables import executions, failed_tasks, outbox, plans
from ..tables.types import BrokenRow, OwnTable, moment_of
from ..writing import FAILURE
from .replays import REPLAY
from .store import ATTEMPT, OUTPUT, TALLY

#: The newest rows of each table that are looked at.
MOST_READ: Final = 1_000

#: Executions are set apart where they are met.
_LOOKED_AT: Final = (
    ALERT,
    ATTEMPT,
    ENTRY,
    BREAKERS.own,
    BUDGETS.own,
    FAILURE,
    NODE,
    DELIVERY,
    OUTPUT,
    PLAN,
    REPLAY,
    TALLY,
    TOKEN,
)


def broken_rows(connection: Connection) -> Iterator[str]:
    for own in _LOOKED_AT:
        newest = [key.desc() for key in own.table.primary_key]
        rows = connection.execute(select(own.table).order_by(*newest).limit(MOST_READ))
        yield from (str(each) for each in own.each(rows) if isinstance(each, BrokenRow))


#: So many undelivered events are counted, and so many targets named.
MOST_COUNTED: Final = 10_000
MOST_NAMED: Final = 100

#: A target is named after so many failed tries, of one event or several, though more tries follow.
FAILING_FROM: Final = 3

_IS_WAITING: Final = outbox.c.state == OutboxState.WAITING.value
_ROWS: Final = (
    select(
        *outbox.c["id", "target", "source"],
        func.coalesce(outbox.c.finished_at, outbox.c.occurred_at).label("at"),
        case((_IS_WAITING, outbox.c.tries), else_=FAILING_FROM).label("tries"),
    )
    .where(
        or_(
            outbox.c.state.in_([each.value for each in UNTOLD]),
            and_(_IS_WAITING, outbox.c.tries > 0, outbox.c.last_error.is_not(None)),
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
#: By the index: what was delivered has no next try.
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
    """Name the targets that were not told of something, and of nothing since."""
    for row in connection.execute(_UNTOLD).all():
        asked = {"target": row.target, "source": row.source}
        heard_at = connection.scalar(_TOLD_LAST, asked)
        if heard_at is None or heard_at <= row.at:
            error = connection.scalar(_ERROR, {"newest": row.newest}) or None
            yield UntoldTarget(
                name=row.target, source=row.source, events=row.events, last_at=row.at, error=error
            )


#: Breakers, and budgets, that are looked at.
MOST_LIMITS: Final = 1_000

_NEXT_DUE: Final = select(func.min(plans.c.next_due_at))
_OWNERS: Final = (
    select(
        executions.c.owner.label("name"),
        func.count().label("running"),
        func.max(executions.c.lease_until).label("lease_until"),
    )
    .where(executions.c.state == State.RUNNING, executions.c.owner.is_not(None))
    .group_by(executions.c.owner)
    .order_by(executions.c.owner)
)
_OWNER: Final = OwnTable(executions, name=str, running=int)
#: The runs that wait for a worker that has their task.
_AWAITED: Final = select(func.count()).where(
    executions.c.state == State.RETRYING.value,
    executions.c.last_error.startswith(AWAITS_TASK, autoescape=True),
)
#: The late runs that wait for their turns, and until when the last of them does.
_LATE_RUNS: Final = select(
    func.count().label("runs"), func.max(executions.c.next_attempt_at).label("until")
).where(
    in_states(WAITING),
    executions.c.next_attempt_at > moment_of("now"),
    executions.c.last_error.startswith(CATCHES_UP, autoescape=True),
)


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
            cause, hint = dialect.errors.cause_of(error.__cause__)
            return Unreachable(cause, str(error), hint)

    def _look(self, engine: Engine) -> LedgerFacts:
        database = Database(engine, self._clock)
        with database.read("examining the database") as connection:
            kept_in = database.dialect.facts(connection)
        skew = self._skew(database)
        try:
            check_schema(engine)
        except LedgerOutdated as error:
            what, _, cure = str(error).rpartition(": ")  # its sentence ends with what to do
            return LedgerFacts(database=kept_in, schema=SchemaFault(what, cure), skew=skew)
        now = database.now()
        nodes = SqlNodeStore(engine, self._clock).nodes(now=now, limit=MOST_REPORTS)
        limits = SqlLimitStore(engine, self._clock)
        with database.read("examining the runs") as connection:
            unfinished = loads(connection)
            failures, apart = _unresolved(connection)
            seen = schedules_seen(connection)
            owners = _OWNER.readable(connection.execute(_OWNERS))
            late = connection.execute(_LATE_RUNS, {"now": now}).one()
            activity = Activity(
                now=now,
                next_due=connection.scalar(_NEXT_DUE),
                overdue=overdue(connection, now),
                unplanned=seen.unplanned,
                last_claim=last_claim(connection),
                nodes=nodes.reports,
                owners=tuple(Owner(**asdict(row)) for row in owners),
                waiting=tuple(outstanding(connection, now, unfinished)),
                queues={load.queue for load in unfinished},
                quarantined=apart,
                failures=failures,
                awaited=connection.scalar(_AWAITED) or 0,
                breakers=limits.breakers(limit=MOST_LIMITS),
                budgets=limits.budgets(limit=MOST_LIMITS),
                late_runs=late.runs,
                late_until=late.until,
                untold=tuple(untold(connection)),
                broken_rows=tuple(broken_rows(connection)),
            )
        return LedgerFacts(
            database=kept_in,
            schema=HEAD,
            skew=skew,
            activity=activity,
            schedules=seen.schedules,
        )

    def _skew(self, database: Database) -> timedelta:
        """Ask on an open connection, and subtract half of the round trip."""
        before = self._clock.monotonic()
        told = database.now()
        halfway = timedelta(seconds=(self._clock.monotonic() - before) / 2)
        return self._clock.now() - halfway - told


def _unresolved(connection: Connection) -> tuple[int, Quarantined]:
    failed = failed_tasks.c
    by_kind = (
        select(failed.kind, func.count()).where(failed.resolution.is_(None)).group_by(failed.kind)
    )
    counts = {row[0]: row[1] for row in connection.execute(by_kind)}
    newest = select(failed.kind).order_by(failed.id.desc()).limit(NEWEST).subquery()
    of_late = select(func.count()).where(newest.c.kind == State.QUARANTINED.value)
    return counts.get(State.FAILED, 0), Quarantined(
        unresolved=counts.get(State.QUARANTINED, 0), of_late=connection.scalar(of_late) or 0
    )

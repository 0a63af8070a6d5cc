"""Looking at the database behind the ledger, and at what its rows show of the nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Dialect, Engine, Select, Subquery, TextClause, func, select, text

from cronhare.domain.addresses import Host
from cronhare.domain.diagnosis import (
    Activity,
    Cause,
    DatabaseFacts,
    Late,
    LedgerFacts,
    Link,
    NodeFacts,
    ScheduleFacts,
    SchemaFault,
    Unreachable,
)
from cronhare.domain.execution import State
from cronhare.domain.keys import MANUAL
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.nodes import container_id
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerOutdated, LedgerUnavailable
from cronhare.ports.schedules import StoredSchedule

from .claims import SqlClaimStore
from .database import Database
from .dialects.base import UPGRADE
from .dialects.mysql.errors import number_of
from .dialects.sqlite.file import is_there
from .looked_at import NEWEST, last_claim, overdue
from .outstanding import outstanding, quarantined, queues_in_use
from .schedules import SqlScheduleStore
from .schema import HEAD, check_schema
from .tables import attempts, executions, metadata

#: Nodes count as known if they did something in so short a time, among the newest rows.
RECENTLY: Final = timedelta(minutes=10)

_CAUSES: Final = {
    2003: Cause.ABSENT,
    2005: Cause.ABSENT,
    1045: Cause.LOGIN,
    1698: Cause.LOGIN,
    1044: Cause.PLACE,
    1049: Cause.PLACE,
}

_VARIABLES: Final = text(
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation', "
    "'sql_mode', 'time_zone', 'character_set_connection', 'read_only', "
    "'innodb_flush_log_at_trx_commit', 'max_allowed_packet')"
)
_ENGINES: Final = text(
    "SELECT table_name, engine FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
)
_NUMBERED: Final = text(
    "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND auto_increment >= :last ORDER BY table_name"
)
_COUNTS: Final = text("SELECT COUNT(*) FROM sqlite_master WHERE name = 'sqlite_sequence'")
_NUMBERED_IN_FILE: Final = text("SELECT name FROM sqlite_sequence WHERE seq >= :last ORDER BY name")
_PRAGMAS: Final = ("journal_mode", "synchronous", "foreign_keys")


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
            return _not_there(engine) or self._look(engine)
        except LedgerUnavailable as error:
            cause = _CAUSES.get(number_of(error.__cause__), Cause.OTHER)
            return Unreachable(cause, str(error))

    def _look(self, engine: Engine) -> LedgerFacts:
        database = Database(engine, self._clock)
        with database.read("examining the database") as connection:
            kept_in = _database(connection)
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


def _not_there(engine: Engine) -> LedgerFacts | None:
    """Tell a missing file without making it, as connecting to it would."""
    file = engine.url.database
    if engine.dialect.name != "sqlite" or file is None or is_there(Path(file)):
        return None
    fault = SchemaFault(f"There is no file {file} yet", f"{UPGRADE}, or start `cronhare up`")
    facts = DatabaseFacts(product="SQLite", version=_version_of_sqlite(engine.dialect))
    return LedgerFacts(database=facts, schema=fault)


def _fault(error: LedgerOutdated) -> SchemaFault:
    """Part the sentence of `check_schema`, which ends with what to do."""
    what, _, cure = str(error).rpartition(": ")
    return SchemaFault(what, cure)


def _database(connection: Connection) -> DatabaseFacts:
    if connection.dialect.name == "sqlite":
        settings = {name: _pragma(connection, name) for name in _PRAGMAS}
        version = _version_of_sqlite(connection.dialect)
        return DatabaseFacts(
            product="SQLite",
            version=version,
            settings=settings,
            exhausted=_exhausted(connection, _NUMBERED_IN_FILE),
        )
    version = str(connection.scalar(text("SELECT VERSION()")))
    return DatabaseFacts(
        product="MariaDB" if "mariadb" in version.lower() else "MySQL",
        version=version,
        settings=_variables(connection),
        link=_link(connection),
        plain_tables=tuple(_plain_tables(connection)),
        exhausted=_exhausted(connection, _NUMBERED),
    )


def _exhausted(connection: Connection, statement: TextClause) -> Sequence[str]:
    """Name the tables that can number no other row. An empty file counts nothing yet."""
    if connection.dialect.name == "sqlite" and not connection.scalar(_COUNTS):
        return ()
    names = {name.lower(): name for name in metadata.tables}
    found = connection.scalars(statement, {"last": LARGEST_ID})
    return [names[name.lower()] for name in found if name.lower() in names]


def _version_of_sqlite(dialect: Dialect) -> str:
    return str(dialect.loaded_dbapi.sqlite_version)


def _pragma(connection: Connection, name: str) -> str:
    return str(connection.exec_driver_sql(f"PRAGMA {name}").scalar())


def _variables(connection: Connection) -> Mapping[str, str]:
    said = {str(name): str(value) for name, value in connection.execute(_VARIABLES)}
    older = said.pop("tx_isolation", None)  # MariaDB's only name for it before 11.1
    return said if older is None else {"transaction_isolation": older, **said}


def _link(connection: Connection) -> Link:
    """Tell how this very connection is encrypted, as server and driver see it."""
    session: Any = connection.connection.dbapi_connection
    [(_, version)] = connection.execute(text("SHOW SESSION STATUS LIKE 'Ssl_version'"))
    context = getattr(session, "ctx", None)
    host = Host(str(session.host), int(session.port))
    return Link(
        host=str(host),
        local=bool(session.unix_socket) or host.is_local,
        tls=str(version) or None,
        verified=bool(version) and context is not None and context.check_hostname,
    )


def _plain_tables(connection: Connection) -> Iterator[str]:
    ours = {name.lower() for name in metadata.tables}
    for name, engine in connection.execute(_ENGINES):
        if name.lower() in ours and engine != "InnoDB":
            yield name


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

"""The ledger in SQL. Start reading at `claims`; what differs between databases is a `dialect`.

Each store is imported when it is asked for: a command that asks one has no need of the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .access import SqlAccessStore
    from .attempts.redeliveries import SqlRedeliveryStore
    from .attempts.store import SqlAttemptStore
    from .audit import SqlAuditStore
    from .claims.store import SqlClaimStore
    from .dialects import open_engine
    from .events.alerts import SqlAlertStore
    from .events.outbox import SqlEventStore
    from .gauges import SqlOverview
    from .ledger_time import SqlLedgerTime
    from .limits.store import SqlLimitStore
    from .migrations.upgrade import check_schema, upgrade
    from .nodes import SqlNodeStore
    from .records.lists import SqlTimelineStore
    from .records.names import SqlNames
    from .records.replays import SqlReplayStore
    from .records.store import SqlRecords
    from .schedule_edits import SqlScheduleEdits
    from .schedule_lists import SqlScheduleLists
    from .schedules import SqlScheduleStore
    from .statistics import SqlStatistics, SqlTimingStore

__all__ = [
    "SqlAccessStore",
    "SqlAlertStore",
    "SqlAttemptStore",
    "SqlAuditStore",
    "SqlClaimStore",
    "SqlEventStore",
    "SqlLedgerTime",
    "SqlLimitStore",
    "SqlNames",
    "SqlNodeStore",
    "SqlOverview",
    "SqlRecords",
    "SqlRedeliveryStore",
    "SqlReplayStore",
    "SqlScheduleEdits",
    "SqlScheduleLists",
    "SqlScheduleStore",
    "SqlStatistics",
    "SqlTimelineStore",
    "SqlTimingStore",
    "check_schema",
    "open_engine",
    "upgrade",
]

_PLACES: Final = {
    "SqlAccessStore": ".access",
    "SqlAlertStore": ".events.alerts",
    "SqlAttemptStore": ".attempts.store",
    "SqlAuditStore": ".audit",
    "SqlClaimStore": ".claims.store",
    "SqlEventStore": ".events.outbox",
    "SqlLedgerTime": ".ledger_time",
    "SqlLimitStore": ".limits.store",
    "SqlNames": ".records.names",
    "SqlNodeStore": ".nodes",
    "SqlOverview": ".gauges",
    "SqlRecords": ".records.store",
    "SqlRedeliveryStore": ".attempts.redeliveries",
    "SqlReplayStore": ".records.replays",
    "SqlScheduleEdits": ".schedule_edits",
    "SqlScheduleLists": ".schedule_lists",
    "SqlScheduleStore": ".schedules",
    "SqlStatistics": ".statistics",
    "SqlTimelineStore": ".records.lists",
    "SqlTimingStore": ".statistics",
    "check_schema": ".migrations.upgrade",
    "open_engine": ".dialects",
    "upgrade": ".migrations.upgrade",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name], __name__), name)

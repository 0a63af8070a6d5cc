"""The ledger in SQL. Start reading at `claims`; what differs between databases is a `dialect`."""

from .attempts.redeliveries import SqlRedeliveryStore
from .attempts.store import SqlAttemptStore
from .audit import SqlAuditStore
from .claims.store import SqlClaimStore
from .dialects import open_engine
from .events.alerts import SqlAlertStore
from .events.store import SqlEventStore
from .limits.store import SqlLimitStore
from .migrations.upgrade import check_schema, upgrade
from .nodes import SqlNodeStore
from .records.overview import SqlOverview
from .records.replays import SqlReplayStore
from .records.statistics import SqlStatistics
from .records.store import SqlRecords
from .records.timeline import SqlTimelineStore
from .schedule_edits import SqlScheduleEdits
from .schedule_lists import SqlScheduleLists
from .schedules import SqlScheduleStore
from .timings import SqlTimingStore

__all__ = [
    "SqlAlertStore",
    "SqlAttemptStore",
    "SqlAuditStore",
    "SqlClaimStore",
    "SqlEventStore",
    "SqlLimitStore",
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

"""The ledger in SQL. Start reading at `claims`; what a database has of its own is in `dialect`."""

from .attempts import SqlAttemptStore
from .claims import SqlClaimStore
from .database import open_engine
from .ledger import SqlLedger
from .nodes import SqlNodeStore
from .records import SqlRecords
from .schedules import SqlScheduleStore
from .schema import check_schema, upgrade

__all__ = [
    "SqlAttemptStore",
    "SqlClaimStore",
    "SqlLedger",
    "SqlNodeStore",
    "SqlRecords",
    "SqlScheduleStore",
    "check_schema",
    "open_engine",
    "upgrade",
]

"""The four adapters on one engine."""

from sqlalchemy import Engine

from cronhare.ports.clock import ClockPort

from .attempts.store import SqlAttemptStore
from .claims.store import SqlClaimStore
from .records.store import SqlRecords
from .schedules import SqlScheduleStore


class SqlLedger:
    """The ledger in SQL, behind its four ports."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """*engine* comes from `open_engine`; *clock* counts where the database has none."""
        self.claims = SqlClaimStore(engine, clock)
        self.attempts = SqlAttemptStore(engine, clock)
        self.schedules = SqlScheduleStore(engine, clock)
        self.records = SqlRecords(engine, clock)

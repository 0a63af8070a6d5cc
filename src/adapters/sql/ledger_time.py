"""The ledger's time, for whoever asks for nothing else of its claims."""

from datetime import datetime

from sqlalchemy import Engine

from cronhare.ports.clock import ClockPort

from .transactions.database import Database, repeatable


class SqlLedgerTime:
    """Tells the one time that decides what is due and what has lapsed."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """See `Database`."""
        self._database = Database(engine, clock)

    @repeatable
    def now(self) -> datetime:
        """See `ClaimStorePort.now`."""
        return self._database.now()

"""The ledger's time: of a store that asks for it, and for whoever asks for nothing else."""

from datetime import datetime

from sqlalchemy import Engine

from cronhare.ports.system import ClockPort

from .transactions.database import Database, StorePart, repeatable


class LedgerTime(StorePart):
    """Tells the one time that decides what is due and what has lapsed."""

    @repeatable
    def now(self) -> datetime:
        return self._database.now()


class SqlLedgerTime(LedgerTime):
    """The same by itself: a command that only asks for it loads no store."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        super().__init__(Database(engine, clock))

"""What the daily cleanup does to a full ledger, and to a dispatch beside it."""

import threading
import time
from datetime import timedelta
from statistics import median
from typing import Final

from figures import Figure
from full_ledger import FullLedger
from open_pages import busy_minutes
from samples import size
from sqlalchemy import func, select

from cronhare.adapters.sql.records.store import SqlRecords
from cronhare.adapters.sql.tables.tables import executions
from cronhare.ports.records import Retention

#: Days ahead, so that so many days of runs have outlived their retention.
AHEAD: Final = timedelta(days=1)
ROUNDS: Final = size(5, 1)


def retention(ledger: FullLedger) -> list[Figure]:
    """Clean up after a day, alone and beside dispatches."""
    with ledger.copy() as path, busy_minutes(path) as minutes:
        quiet = median(minutes.dispatch()[0] for _ in range(ROUNDS))
        engine = minutes.engine
        with engine.connect() as connection:
            before = connection.scalar(select(func.count()).select_from(executions))
        deleted = list[int]()
        records = SqlRecords(engine, minutes.clock)

        def clean() -> None:
            now = minutes.clock.now() + AHEAD
            deleted.append(records.clean_up(now=now, retention=Retention()))

        cleaning = threading.Thread(target=clean)
        began = time.perf_counter()
        cleaning.start()
        beside = list[float]()
        while cleaning.is_alive():
            beside.append(minutes.dispatch()[0])
        cleaning.join()
        seconds = time.perf_counter() - began
    return [
        Figure(what="cleanup of a day", ours=seconds, unit="s",
               note=f"{deleted[0]:,} of {before:,} executions"),
        Figure(what="dispatch 10,000 beside it", ours=median(beside), unit="s",
               note=f"{quiet:.2f} s without; {len(beside)} runs, in the same process"),
    ]  # fmt: skip

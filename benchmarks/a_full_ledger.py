"""Fill a ledger as a large installation's is: 100,000 schedules, 1,000,000 executions.

    .venv/bin/python benchmarks/a_full_ledger.py sqlite:////tmp/full.sqlite3 [--executions 1000000]

It takes a minute on SQLite, and is the same in every run but for the day: the week ends now, as
pages and lists show what is near. The database must be empty; the schema is made.
"""

import argparse
import sys
import time
from datetime import UTC, datetime, timedelta

from bulk import analyze, insert_many
from dependency_injector import providers
from full_history import (
    ATTEMPT_COLUMNS,
    EXECUTION_COLUMNS,
    FAILED_COLUMNS,
    OUTPUT_COLUMNS,
    History,
    others,
)
from full_schedules import HOLIDAYS, QUEUES, SOURCE, full_schedules, name_of
from production import opened
from samples import size
from sqlalchemy import select, update

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.adapters.sql.tables.tables import (
    attempts,
    executions,
    failed_tasks,
    metadata,
    outputs,
    schedulers,
)
from cronhare.domain.schedules.skips import Pause

SCHEDULES = size(100_000, 1_600)
EXECUTIONS = size(1_000_000, 12_000)

#: How long ago the schedules were made.
MADE = timedelta(days=30)

#: Every so many-th schedule is paused.
PAUSED = 500


def fill(url: str, *, count: int = SCHEDULES, total: int = EXECUTIONS) -> None:
    """Make the schema, the schedules with their plans, and their history."""
    engine = open_engine(url)
    upgrade(engine, datetime.now(UTC))
    with opened(url, "memory://") as container:
        now = container.claims().now()
        drafts = full_schedules(count, now)
        container.schedules().save(drafts, source=SOURCE, now=now, calendars=[HOLIDAYS])
        for number in range(0, count, PAUSED):
            pause = Pause(since=now - timedelta(hours=2), by="ops", reason="the provider is away")
            container.schedules().pause(name_of(number), pause, now=now)
        _note("schedules saved")
    with engine.begin() as connection:
        # No edit, or the week would be caught up.
        connection.execute(
            update(schedulers).values(created_at=now - MADE, updated_at=schedulers.c.updated_at)
        )
        rows = connection.execute(select(schedulers.c.name, schedulers.c.id)).all()
    found = {row.name: row.id for row in rows}
    history = History([found[draft.name] for draft in drafts], now, total)
    runs = history.runs()
    _note("runs chosen")
    insert_many(engine, executions, EXECUTION_COLUMNS, history.executions(runs))
    _note("executions written")
    insert_many(engine, attempts, ATTEMPT_COLUMNS, history.attempts(runs))
    _note("attempts written")
    insert_many(engine, outputs, OUTPUT_COLUMNS, history.outputs(runs))
    insert_many(engine, failed_tasks, FAILED_COLUMNS, history.failures(runs))
    for name, (columns, rows) in others(now, history.ids).items():
        insert_many(engine, metadata.tables[name], columns, rows)
    engine.dispose()  # a server ends sessions that were silent for so long
    analyze(engine)
    _note("the others written")
    with opened(url, "memory://") as container:
        container.queues.override(providers.Object(QUEUES))
        container.dispatcher().tick(container.claims().now())
    _note("schedules planned")
    engine.dispose()


def _note(what: str) -> None:
    print(f"{time.perf_counter() - BEGAN:7.1f} s  {what}", file=sys.stderr)


BEGAN = time.perf_counter()

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--executions", type=int, default=EXECUTIONS)
    asked = parser.parse_args()
    fill(asked.url, count=asked.schedules, total=asked.executions)

"""Ledgers from before a migration that had to say what becomes of their rows."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from sqlalchemy import Engine, text

from cronhare.adapters.sql import open_engine, upgrade
from cronhare.adapters.sql.migrations.upgrade import VERSION_TABLE
from cronhare.domain.execution import State
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import FOR_GOOD, GRACES, MINUTE, NOON, Ledger, draft, sql_ledger
from tests.integration.revisions import REVISIONS

#: What the fourth migration adds, taken away again.
BEFORE = (
    "ALTER TABLE Scheduler DROP COLUMN task_name",
    "ALTER TABLE SchedulerExecution DROP COLUMN source",
    "ALTER TABLE SchedulerExecution DROP COLUMN task_name",
    "ALTER TABLE FailedTask DROP COLUMN source",
    "ALTER TABLE FailedTask DROP COLUMN task_name",
    f"UPDATE {VERSION_TABLE} SET version_num = '0003'",
)


@pytest.fixture(params=["sqlite", pytest.param("mysql", marks=pytest.mark.integration)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with _opened(request, tmp_path) as engine:
        yield engine


@contextmanager
def _opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "sqlite":
        copyfile(request.getfixturevalue("migrated_sqlite"), tmp_path / "ledger.db")
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
    else:
        url = request.getfixturevalue("empty_mysql").render_as_string(hide_password=False)
    engine = open_engine(url)
    upgrade(engine)
    yield engine
    engine.dispose()


def take_back(engine: Engine, statements: Sequence[str] = BEFORE) -> None:
    with closing(engine.connect()) as connection:
        if statements is BEFORE and not _is_mysql(engine):  # it drops an index with its column
            for index in ("ix_execution_task", "ix_scheduler_task"):
                connection.execute(text(f"DROP INDEX {index}"))
        for statement in statements:
            connection.execute(text(statement))
        connection.commit()


def save(ledger: Ledger, name: str, source: str | None, **changes: Any) -> None:  # noqa: ANN401
    ledger.schedules.save([draft(name, **changes)], source=source, now=ledger.now)


def test_what_can_still_run_stays_its_sources(engine: Engine, clock: FrozenClock) -> None:
    ledger = sql_ledger(clock, engine)
    for name, source in (("ours", "shop"), ("theirs", "garden"), ("by-hand", None)):
        save(ledger, name, source)
    ledger.plan_edited()
    clock.advance(MINUTE)
    claimed = {run.schedule_name: run for run in ledger.claim_due().claimed}
    ledger.finished(claimed["theirs"], FOR_GOOD)
    take_back(engine)

    applied = upgrade(engine)

    assert applied[:1] == ["0004"]
    found = {run.schedule_name: (run.source, run.state) for run in ledger.executions()}
    assert found == {
        "ours": ("shop", State.CLAIMED),
        "theirs": ("garden", State.FAILED),
        "by-hand": (None, State.CLAIMED),
    }


def test_the_upgrade_is_no_edit_and_nothing_is_missed_by_it(
    engine: Engine, clock: FrozenClock
) -> None:
    ledger = sql_ledger(clock, engine)
    save(ledger, "ours", "shop")
    ledger.plan_edited()
    clock.advance(MINUTE)
    take_back(engine)

    upgrade(engine)
    ledger.name_tasks({"ours": "backup"})
    looked = ledger.plan_edited().looked

    [run] = ledger.claim_due().claimed
    assert looked == 0
    assert (run.due_at, run.source, run.task_name) == (NOON + MINUTE, "shop", "backup")


def test_failures_of_an_older_ledger_count_as_published(engine: Engine, clock: FrozenClock) -> None:
    ledger = sql_ledger(clock, engine)
    older = ledger.failed("older")
    drop = "DROP INDEX ix_failed_check" + (" ON FailedTask" if _is_mysql(engine) else "")
    column = "ALTER TABLE FailedTask DROP COLUMN check_at"
    take_back(engine, (drop, column, f"UPDATE {VERSION_TABLE} SET version_num = '0007'"))

    applied = upgrade(engine)
    newer = ledger.failed("newer")
    clock.advance(MINUTE)

    found = ledger.claims.overdue_ends(now=clock.now(), graces=GRACES, limit=9)
    assert (applied, [one.id for one in found]) == (
        REVISIONS[REVISIONS.index("0008") :],
        [newer.id],
    )
    assert [one.check_at for one in ledger.records.archived([older.id])] == [None]


def _is_mysql(engine: Engine) -> bool:
    return engine.dialect.name != "sqlite"

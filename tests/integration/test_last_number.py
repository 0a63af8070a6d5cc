"""A row with the last number that a table has: nothing more can be numbered, and that is told."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest
from sqlalchemy import URL, Engine

from cronhare.adapters.sql import open_engine
from cronhare.adapters.sql.inspection import SqlInspection
from cronhare.domain.diagnosis import LedgerFacts, Severity, judge_ledger
from cronhare.domain.execution import Execution
from cronhare.domain.messages import LARGEST_ID
from cronhare.ports.ledger import LedgerUnavailable
from tests.integration.ledgers import MINUTE, Ledger
from tests.services.mariadb import connect

Shell: TypeAlias = Callable[[str], object]


@pytest.fixture(params=["sqlite", pytest.param("mysql", marks=pytest.mark.integration)])
def database(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def ledger(database: str, request: pytest.FixtureRequest) -> Ledger:
    ledger: Ledger = request.getfixturevalue(database)
    ledger.plan_edited()
    return ledger


@pytest.fixture
def place(database: str, request: pytest.FixtureRequest) -> str:
    if database == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'ledger.db'}"
    url: URL = request.getfixturevalue("migrated_mysql")
    return url.render_as_string(hide_password=False)


@pytest.fixture
def engine(place: str) -> Iterator[Engine]:
    engine = open_engine(place)
    yield engine
    engine.dispose()


@pytest.fixture
def shell(database: str, request: pytest.FixtureRequest) -> Iterator[Shell]:
    if database == "sqlite":
        path: Path = request.getfixturevalue("tmp_path") / "ledger.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            yield connection.execute
        return
    url: URL = request.getfixturevalue("migrated_mysql")
    with closing(connect(url)) as session, session.cursor() as cursor:
        yield cursor.execute
        cursor.execute("DELETE FROM SchedulerExecution")
        cursor.execute("ALTER TABLE SchedulerExecution AUTO_INCREMENT = 1")


def exhaust(shell: Shell, of: Execution) -> None:
    shell(
        "INSERT INTO SchedulerExecution (id, scheduler_id, execution_key, executed_at, "
        f"container_id) VALUES ({LARGEST_ID}, {of.scheduler_id}, 'mine', '2026-01-01', 'me')"
    )


def test_no_instant_is_lost_and_the_cure_that_is_told_works(
    ledger: Ledger, engine: Engine, shell: Shell
) -> None:
    exhaust(shell, ledger.claimed("first"))
    id_ = ledger.add("second", schedule=None, date_time=ledger.now + MINUTE)
    ledger.clock.advance(MINUTE)

    with pytest.raises(LedgerUnavailable, match="last number"):
        ledger.claim_due()
    facts = SqlInspection(lambda: engine, ledger.clock).inspect()
    assert isinstance(facts, LedgerFacts)
    [found] = [
        finding
        for finding in judge_ledger(facts)
        if finding.severity is Severity.ERROR and "last number" in finding.what
    ]
    assert "SchedulerExecution" in found.what
    for statement in found.cure.split("`")[1::2]:
        shell(statement)

    assert [one.scheduler_id for one in ledger.claim_due().claimed] == [id_]

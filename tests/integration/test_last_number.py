"""A row with the last number that a table has: nothing more can be numbered, and that is told."""

from collections.abc import Iterator

import pytest
from sqlalchemy import URL, Engine

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.records.inspection import SqlInspection
from cronhare.domain.diagnosis.finding import Severity
from cronhare.domain.diagnosis.ledger import LedgerFacts, judge_ledger
from cronhare.domain.execution import Execution
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.ports.errors import LedgerUnavailable
from tests.integration.ledgers import MINUTE, Ledger, Shell

SEQUENCE = "pg_get_serial_sequence('SchedulerExecution', 'id')"


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


@pytest.fixture
def place(database: str, request: pytest.FixtureRequest) -> str:
    if database == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'ledger.db'}"
    url: URL = request.getfixturevalue(f"migrated_{database}")
    return url.render_as_string(hide_password=False)


@pytest.fixture
def engine(place: str) -> Iterator[Engine]:
    engine = open_engine(place)
    yield engine
    engine.dispose()


@pytest.fixture
def shell(shell: Shell, database: str) -> Iterator[Shell]:
    """Leaves the server's table, which others use, without the last number."""
    yield shell
    if database == "mysql":
        shell("DELETE FROM SchedulerExecution")
        shell("ALTER TABLE SchedulerExecution AUTO_INCREMENT = 1")
    if database == "postgresql":
        shell("DELETE FROM SchedulerExecution")
        shell(f"SELECT setval({SEQUENCE}, 1)")


def exhaust(shell: Shell, of: Execution, database: str) -> None:
    if database == "postgresql":  # a row that brings its number takes none from the sequence
        shell(f"SELECT setval({SEQUENCE}, {LARGEST_ID})")
    shell(
        "INSERT INTO SchedulerExecution"
        " (id, scheduler_id, execution_key, executed_at, container_id)"
        f" VALUES ({LARGEST_ID}, {of.scheduler_id}, 'mine', '2026-01-01 00:00:00.000000', 'me')"
    )


def test_no_instant_is_lost_and_the_cure_that_is_told_works(
    ledger: Ledger, engine: Engine, shell: Shell, database: str
) -> None:
    exhaust(shell, ledger.claimed("first"), database)
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

"""What is repeated, what rests for a while, and what is written of a row that is set apart."""

from collections.abc import Sequence

import psycopg
import pymysql
import pytest
from sqlalchemy.exc import DBAPIError, OperationalError

from cronhare.adapters.sql import database, writing
from cronhare.adapters.sql.database import repeatable
from cronhare.adapters.sql.dialect import Cooldown, Locked, Meaning, TransactionRolledBack
from cronhare.adapters.sql.dialects.mysql_sessions import MysqlErrors
from cronhare.adapters.sql.dialects.postgresql_sessions import PostgresqlErrors
from cronhare.adapters.sql.writing import Written, write_each
from cronhare.domain.retries.policy import REST
from cronhare.ports import LedgerUnavailable
from tests.unit.executions import NOON


class Flaky:
    """Fails so often, and then no more."""

    def __init__(self, failures: int, error: type[LedgerUnavailable]) -> None:
        self.calls = 0
        self._failures = failures
        self._error = error

    @repeatable
    def call(self, answer: str) -> str:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error("a deadlock, say")
        return answer


def test_what_was_taken_back_is_repeated_until_it_is_done() -> None:
    flaky = Flaky(3, TransactionRolledBack)

    assert flaky.call("done") == "done"
    assert flaky.calls == 4


def test_what_nobody_knows_the_outcome_of_is_the_callers_to_repeat() -> None:
    flaky = Flaky(1, LedgerUnavailable)

    with pytest.raises(LedgerUnavailable):
        flaky.call("done")

    assert flaky.calls == 1


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "REPEAT_FOR", 0.02)
    flaky = Flaky(1_000, TransactionRolledBack)

    with pytest.raises(TransactionRolledBack):
        flaky.call("done")

    assert flaky.calls < 10


def _error(original: pymysql.MySQLError, *, lost: bool = False) -> DBAPIError:
    return OperationalError("UPDATE", None, original, connection_invalidated=lost)


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        *(
            (_error(pymysql.err.OperationalError(number, "rolled back")), Meaning.TAKEN_BACK)
            for number in (1213, 1020, 3101)
        ),
        (_error(pymysql.err.OperationalError(1047, "has lost its cluster")), Meaning.NO_WRITES),
        (_error(pymysql.err.OperationalError(1205, "lock wait timeout")), Meaning.LOCKED),
        (_error(pymysql.err.IntegrityError(1062, "duplicate")), Meaning.DUPLICATE),
        (_error(pymysql.err.OperationalError(2013, "lost during query")), Meaning.LOST),
        (_error(pymysql.err.InternalError("packet sequence wrong"), lost=True), Meaning.LOST),
        (_error(pymysql.err.DataError(1406, "data too long")), Meaning.REFUSED),
        (_error(pymysql.err.OperationalError(1644, "a trigger's SIGNAL")), Meaning.REFUSED),
        (_error(pymysql.err.ProgrammingError(1146, "no such table")), Meaning.MISSING),
        (_error(pymysql.err.OperationalError(1114, "full")), Meaning.OUTAGE),
        (_error(pymysql.err.OperationalError(9001, "a proxy could not ask")), Meaning.OUTAGE),
        (_error(pymysql.err.OperationalError(65_000, "a new one")), Meaning.FAILED),
    ],
    ids=lambda each: str(getattr(each, "orig", "")),
)
def test_what_an_error_of_mysql_means(error: DBAPIError, meaning: Meaning) -> None:
    assert MysqlErrors().meaning_of(error) is meaning


@pytest.mark.parametrize(
    ("state", "meaning"),
    [
        ("40001", Meaning.TAKEN_BACK),
        ("55P03", Meaning.LOCKED),
        ("23505", Meaning.DUPLICATE),
        ("23514", Meaning.REFUSED),
        ("P0001", Meaning.REFUSED),  # a trigger's RAISE
        ("57P01", Meaning.LOST),
        ("25006", Meaning.NO_WRITES),
        ("53100", Meaning.OUTAGE),
        ("57014", Meaning.OUTAGE),  # it took too long
        ("2200H", Meaning.OUTAGE),  # no number is left
        ("42P01", Meaning.MISSING),
        ("XY001", Meaning.FAILED),
        (None, Meaning.LOST),  # the driver has heard of no server
    ],
)
def test_what_an_error_of_postgresql_means(state: str | None, meaning: Meaning) -> None:
    said = psycopg.OperationalError("no")
    said.sqlstate = state

    assert PostgresqlErrors().meaning_of(OperationalError("UPDATE", None, said)) is meaning


def test_what_was_not_tried_is_not_called_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "LONGEST_WAIT", 0.0)
    tried = list[int]()

    def write(part: Sequence[int]) -> Written[str]:
        if len(part) == 1:
            tried.extend(part)
        raise Locked("somebody has it")

    answers = write_each(
        [1, 2, 3, 4],
        write,
        refused=lambda one, _: [f"{one} refused"],
        locked=lambda one: [f"{one} locked"],
        untried=lambda one: [f"{one} untried"],
    )

    assert len(tried) == 1
    assert answers == [f"{one} {'locked' if one in tried else 'untried'}" for one in (1, 2, 3, 4)]


def test_a_row_rests_for_a_while_also_by_a_clock_that_is_set_back() -> None:
    lately = Cooldown()
    lately.note(7, NOON)

    assert {*lately.at(NOON)} == {7}
    assert not lately.at(NOON + REST)
    lately.note(7, NOON)
    assert not lately.at(NOON - REST)

"""What is repeated, and for how long."""

import pymysql
import pytest
from sqlalchemy.exc import DBAPIError, OperationalError

from cronhare.adapters.sql.dialect import TransactionRolledBack, dialect_of
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.dialects.mysql import errors as mysql_errors
from cronhare.adapters.sql.transactions import database
from cronhare.adapters.sql.transactions.database import repeatable
from cronhare.ports.ledger import LedgerUnavailable

MYSQL = dialect_of(open_engine("mysql+pymysql://cron@localhost/cron"))


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

    assert 1 < flaky.calls < 10


def _error(original: pymysql.MySQLError, *, lost: bool = False) -> DBAPIError:
    return OperationalError("UPDATE", None, original, connection_invalidated=lost)


@pytest.mark.parametrize("committing", [False, True])
@pytest.mark.parametrize("number", [1213, 1205, 1020, 1062, 1047, 3101])
def test_a_transaction_that_was_rolled_back_is_undone_at_any_time(
    number: int, *, committing: bool
) -> None:
    error = _error(pymysql.err.OperationalError(number, "rolled back"))

    assert MYSQL.is_rolled_back(error, committing=committing)


@pytest.mark.parametrize(
    "error",
    [
        _error(pymysql.err.OperationalError(2006, "gone away")),
        _error(pymysql.err.OperationalError(2013, "lost during query")),
        _error(pymysql.err.OperationalError(2055, "lost at reading")),
        _error(pymysql.err.InterfaceError(0, "")),
        _error(pymysql.err.InternalError("packet sequence number wrong"), lost=True),
    ],
)
def test_a_lost_connection_undoes_all_but_a_commit(error: DBAPIError) -> None:
    assert MYSQL.is_rolled_back(error, committing=False)
    assert not MYSQL.is_rolled_back(error, committing=True)


@pytest.mark.parametrize("committing", [False, True])
@pytest.mark.parametrize("number", [1045, 1049, 1064, 1142, 1146, 1180, 1406, 2003])
def test_what_does_not_pass_or_nobody_knows_the_outcome_of_is_not_repeated(
    number: int, *, committing: bool
) -> None:
    error = _error(pymysql.err.OperationalError(number, "no"))

    assert not MYSQL.is_rolled_back(error, committing=committing)


def test_a_node_that_has_lost_its_cluster_is_left_and_a_conflict_costs_no_connection() -> None:
    assert mysql_errors.is_lost(_error(pymysql.err.OperationalError(1047, "not ready")))
    for number in (1213, 3101, 1180):
        assert not mysql_errors.is_lost(_error(pymysql.err.OperationalError(number, "conflict")))

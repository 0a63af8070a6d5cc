"""Error numbers that look like an outage: of one row alone they cost that row, of all they are one.

A trigger may say any of them, of a table of its own: its definer lacks a privilege, what it fills
is full.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from secrets import token_hex
from typing import TypeAlias

import pytest

from cronhare.adapters.sql import SqlClaimStore
from cronhare.adapters.sql.transactions.database import Database
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.retries.retry import Complete
from cronhare.ports.attempts import Busy, Finish, Superseded
from cronhare.ports.ledger import LedgerBusy, LedgerUnavailable
from cronhare.ports.runner import Captured, Written
from tests.integration.ledgers import (
    FOR_GOOD,
    GRACES,
    LEASE,
    LOSS,
    MINUTE,
    SECOND,
    SUCCESS,
    Ledger,
    Shell,
    draft,
)
from tests.integration.rules import all_started, claim_all, some, start_all, states, told

pytestmark = pytest.mark.integration

DAY = timedelta(days=1)

#: Lets a table answer, at an event and for the rows of a condition, with an error number.
Failing: TypeAlias = Callable[..., AbstractContextManager[None]]

ALL = "1 = 1"


@pytest.fixture
def ledger(mysql: Ledger) -> Ledger:
    mysql.plan_edited()
    return mysql


@pytest.fixture(
    params=[1142, 1114, 1290, 1370, 1969, 3024],
    ids=lambda number: f"error {number}",
)
def number(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def failing(mysql_shell: Shell) -> Failing:
    @contextmanager
    def rule(table: str, event: str, when: str, number: int = 1142) -> Iterator[None]:
        signal = f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'as it says'"
        mysql_shell(
            f"CREATE TRIGGER failing BEFORE {event} ON `{table}` FOR EACH ROW "
            f"IF {when} THEN {signal}; END IF"
        )
        try:
            yield
        finally:
            mysql_shell("DROP TRIGGER failing")

    return rule


def claimed(ledger: Ledger) -> list[str]:
    """Claim what is due; gives the names of the schedules."""
    return [one.schedule_name for one in claim_all(ledger)]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tells of each transaction that is begun to write."""
    begun: list[str] = []
    write = Database.write

    def counted(database: Database, doing: str) -> AbstractContextManager[object]:
        begun.append(doing)
        return write(database, doing)

    monkeypatch.setattr(Database, "write", counted)
    return begun


def test_of_schedules_the_one_whose_runs_cannot_be_written_is_left_out(
    ledger: Ledger, failing: Failing, number: int
) -> None:
    ids = [ledger.add(f"report-{place}") for place in range(5)]
    ledger.clock.advance(MINUTE)

    with failing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {ids[2]}", number):
        beside = claimed(ledger)
        ledger.clock.advance(SECOND)
        again = claimed(ledger)
    ledger.clock.advance(MINUTE)

    assert beside == ["report-0", "report-1", "report-3", "report-4"]
    assert again == []
    assert "report-2" in claimed(ledger)


def test_of_plans_those_that_cannot_be_written_at_all_stop_no_other(
    ledger: Ledger, failing: Failing, number: int
) -> None:
    ids = [ledger.add(f"report-{place}") for place in range(5)]
    ledger.clock.advance(MINUTE)

    with failing("SchedulerPlan", "UPDATE", f"NEW.scheduler_id <= {ids[1]}", number):
        assert claimed(ledger) == ["report-2", "report-3", "report-4"]
    ledger.clock.advance(MINUTE)

    assert len(claimed(ledger)) >= 5


@pytest.mark.parametrize("act", ["INSERT INTO audit_denied VALUES (NEW.id)", "CALL audit()"])
def test_a_trigger_whose_definer_lacks_privileges_stops_one_schedule(
    ledger: Ledger, mysql_shell: Shell, act: str
) -> None:
    ids = [ledger.add(f"report-{place}") for place in range(3)]
    ledger.clock.advance(MINUTE)
    definer = f"auditor_{token_hex(4)}@'127.0.0.1'"
    mysql_shell("CREATE TABLE audit_denied (execution_id BIGINT)")
    mysql_shell("CREATE PROCEDURE audit() DO 0")
    mysql_shell(f"CREATE USER {definer}")
    try:
        mysql_shell(f"GRANT TRIGGER, SELECT ON SchedulerExecution TO {definer}")
        mysql_shell(
            f"CREATE DEFINER = {definer} TRIGGER auditing AFTER INSERT ON SchedulerExecution "
            f"FOR EACH ROW IF NEW.scheduler_id = {ids[1]} THEN "
            f"{act}; END IF"
        )
        beside = claimed(ledger)
    finally:
        mysql_shell("DROP TRIGGER IF EXISTS auditing")
        mysql_shell(f"DROP USER {definer}")
        mysql_shell("DROP PROCEDURE audit")
        mysql_shell("DROP TABLE audit_denied")

    assert beside == ["report-0", "report-2"]


@pytest.mark.parametrize("number", [1040, 1143, 1030, 1317, 1105, 3168, 9001, 1370, 1969, 3024])
def test_whatever_number_the_start_of_one_brings_it_alone_waits(
    ledger: Ledger, failing: Failing, number: int
) -> None:
    found = some(ledger)
    place = number % len(found)

    with failing("ExecutionAttempt", "INSERT", f"NEW.execution_id = {found[place].id}", number):
        answers = start_all(ledger, found)

    assert [n for n, one in enumerate(answers) if one == Busy()] == [place]
    assert [type(one) for one in answers].count(Execution) == 4
    assert len(all_started(ledger, [found[place]])) == 1


@pytest.mark.parametrize("count", [1, 4, 40])
def test_starts_that_cannot_be_written_wait_if_another_that_waits_could_start(
    ledger: Ledger, failing: Failing, count: int
) -> None:
    found = some(ledger, count + 1)
    other = found.pop()

    with failing("ExecutionAttempt", "INSERT", f"NEW.execution_id < {other.id}"):
        answers = start_all(ledger, found)

    assert answers == [Busy()] * count
    assert states(ledger, [*found, other]) == [State.CLAIMED] * (count + 1)


def test_of_ends_the_one_that_cannot_be_written_waits(
    ledger: Ledger, failing: Failing, number: int
) -> None:
    started = all_started(ledger, some(ledger))
    finishes = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in started]

    with failing("ExecutionAttempt", "UPDATE", f"NEW.execution_id = {started[1].id}", number):
        answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")
    after = ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    assert [n for n, one in enumerate(answers) if one == Busy()] == [1]
    assert list(answers).count(State.SUCCEEDED) == 4
    assert after == [State.SUCCEEDED] * 5


def test_of_lost_attempts_the_one_that_cannot_be_written_is_passed_over(
    ledger: Ledger, failing: Failing, number: int
) -> None:
    started = all_started(ledger, some(ledger))
    ledger.clock.advance(2 * LEASE)
    lost = [Finish(execution=one, ran=LOSS, verdict=FOR_GOOD) for one in started]

    with failing("FailedTask", "INSERT", f"NEW.execution_id = {started[4].id}", number):
        answers = ledger.attempts.give_up(lost, now=ledger.now)
        left = ledger.lapsed()
    ledger.clock.advance(MINUTE)

    assert answers == [*[State.FAILED] * 4, Superseded()]
    assert (left, ledger.lapsed()) == ([], [started[4].id])


def test_of_leases_the_one_that_cannot_be_written_is_as_it_was(
    ledger: Ledger, failing: Failing, number: int
) -> None:
    started = all_started(ledger, some(ledger))
    ids = [one.id for one in started]

    with failing("SchedulerExecution", "UPDATE", f"NEW.id = {ids[3]}", number):
        renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE)

    assert renewal.held == {*ids} - {ids[3]}
    assert renewal.busy == {ids[3]}


@pytest.mark.parametrize(
    ("noted", "state"),
    [(SqlClaimStore.mark_published, State.PUBLISHED), (SqlClaimStore.hand_over, State.HANDED_OVER)],
    ids=["marks", "hand-overs"],
)
def test_of_notes_the_one_that_cannot_be_written_is_passed_over(
    ledger: Ledger, failing: Failing, number: int, noted: Callable[..., None], state: State
) -> None:
    found = some(ledger)

    with failing("SchedulerExecution", "UPDATE", f"NEW.id = {found[0].id}", number):
        noted(ledger.claims, found, now=ledger.now)

    assert states(ledger, found) == [State.CLAIMED, *[state] * 4]


def test_of_the_overdue_the_one_that_cannot_be_written_is_passed_over(
    ledger: Ledger, failing: Failing, number: int
) -> None:
    found = some(ledger)
    ledger.clock.advance(DAY)

    def overdue() -> list[int]:
        taken = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=5)
        return [one.id for one in taken]

    with failing("SchedulerExecution", "UPDATE", f"NEW.id = {found[2].id}", number):
        beside, again = overdue(), overdue()
    ledger.clock.advance(MINUTE)

    assert (beside, again) == ([one.id for one in found if one is not found[2]], [])
    assert found[2].id in overdue()


def test_of_what_nobody_would_find_the_one_that_cannot_be_written_is_passed_over(
    ledger: Ledger, failing: Failing, mysql_shell: Shell, number: int
) -> None:
    found = some(ledger)
    mysql_shell("UPDATE SchedulerExecution SET check_at = NULL")

    with failing("SchedulerExecution", "UPDATE", f"NEW.id = {found[2].id}", number):
        assert ledger.claims.regain(now=ledger.now, limit=5) == 4


def test_of_output_and_of_ends_that_are_told_what_cannot_be_written_stops_no_other(
    ledger: Ledger, failing: Failing, number: int
) -> None:
    broken, other = all_started(ledger, some(ledger, 2))
    said = Captured(head="half\n", bytes=5)
    written = [
        Written(execution_id=one.id, attempt=1, stdout=said, stderr=Captured())
        for one in (broken, other)
    ]
    with failing("AttemptOutput", "INSERT", f"NEW.execution_id = {broken.id}", number):
        ledger.attempts.keep_written(written, now=ledger.now, node="ant")
    assert [bool(ledger.records.output(one.id)) for one in (broken, other)] == [False, True]

    failed = [ledger.failed(name) for name in ("broken", "innocent")]
    ledger.clock.advance(GRACES.ended)
    with failing("FailedTask", "UPDATE", f"NEW.id = {failed[0].id}", number):
        found = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)
        ledger.claims.mark_ends_published([one.ticket for one in failed])

    assert [one.id for one in found] == [failed[1].id]


def test_of_failures_that_are_told_the_one_that_cannot_be_written_waits_alone(
    ledger: Ledger, failing: Failing, number: int
) -> None:
    id_ = ledger.add()

    def keep(scheduler_id: int) -> object:
        failure = told(scheduler_id, None)
        return ledger.records.keep_failure(failure, now=ledger.now, node="ant")

    with failing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {id_}", number):
        with pytest.raises(LedgerBusy, match="as it says"):
            keep(id_)
        assert isinstance(keep(4_711), Archived)
    assert isinstance(keep(id_), Archived)
    with failing("FailedTask", "INSERT", ALL, number), pytest.raises(LedgerUnavailable) as raised:
        keep(4_712)

    assert not isinstance(raised.value, LedgerBusy)


@pytest.fixture(params=[1, 3, 200])
def many(request: pytest.FixtureRequest) -> int:
    many: int = request.param
    return many


def test_an_outage_of_claims_is_one_with_its_own_advice_and_little_is_tried(
    ledger: Ledger, failing: Failing, written: list[str], many: int
) -> None:
    ledger.save(*(draft(f"report-{place:03}") for place in range(many)))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    written.clear()
    with (
        failing("SchedulerPlan", "UPDATE", ALL),
        pytest.raises(LedgerUnavailable, match=r"claiming .* lacks a privilege: GRANT"),
    ):
        ledger.claim_due(limit=1_000)
    tried = len(written)

    assert tried <= 4 * many.bit_length() + 8
    assert len(claimed(ledger) + claimed(ledger)) == many


def test_an_outage_of_starts_is_one_with_its_own_advice_and_little_is_tried(
    ledger: Ledger, failing: Failing, written: list[str], many: int
) -> None:
    found = some(ledger, many)

    written.clear()
    with (
        failing("ExecutionAttempt", "INSERT", ALL),
        pytest.raises(LedgerUnavailable, match=r"starting .* lacks a privilege: GRANT"),
    ):
        start_all(ledger, found)

    assert len(written) <= many.bit_length() + 26
    assert states(ledger, found) == [State.CLAIMED] * many


def test_an_outage_of_what_is_overdue_is_one_and_passes_nothing_over(
    ledger: Ledger, failing: Failing, written: list[str], many: int
) -> None:
    found = some(ledger, many)
    ledger.clock.advance(DAY)

    written.clear()
    with (
        failing("SchedulerExecution", "UPDATE", ALL, 1290),
        pytest.raises(LedgerUnavailable, match="the server is read-only"),
    ):
        ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=1_000)

    assert len(written) <= many.bit_length() + 26
    taken = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=1_000)
    assert [one.id for one in taken] == [one.id for one in found]

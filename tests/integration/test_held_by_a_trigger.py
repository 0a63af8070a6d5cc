"""A trigger that waits for a row that somebody holds: what fires it waits, its neighbours go on."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Protocol

import pytest
from sqlalchemy import URL

from cronhare.adapters.sql.isolation import bisection
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.messages.messages import AttemptRef
from cronhare.ports.attempts import Busy
from cronhare.ports.ledger import LedgerBusy, LedgerUnavailable
from cronhare.ports.runner import Captured, Written
from tests.integration.ledgers import GRACES, LEASE, MINUTE, Ledger, Shell, draft
from tests.integration.rules import Holding, all_started, some, start_all, states, told
from tests.services.mariadb import connect, run

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

DAY = timedelta(days=1)


class Auditing(Protocol):
    """Lets a trigger of a table write into a row that somebody holds."""

    def __call__(self, table: str, event: str, when: str) -> AbstractContextManager[None]: ...


@pytest.fixture
def ledger(mysql: Ledger) -> Ledger:
    mysql.plan_edited()
    return mysql


@pytest.fixture
def auditing(mysql_shell: Shell, holding: Holding) -> Iterator[Auditing]:
    mysql_shell("CREATE TABLE audit_held (id INT PRIMARY KEY, n INT)")
    mysql_shell("INSERT INTO audit_held VALUES (1, 0)")

    @contextmanager
    def trigger(table: str, event: str, when: str) -> Iterator[None]:
        mysql_shell(
            f"CREATE TRIGGER auditing AFTER {event} ON `{table}` FOR EACH ROW "
            f"IF {when} THEN UPDATE audit_held SET n = n + 1 WHERE id = 1; END IF"
        )
        try:
            with holding("UPDATE audit_held SET n = n + 1"):
                yield
        finally:
            mysql_shell("DROP TRIGGER auditing")

    yield trigger
    mysql_shell("DROP TABLE audit_held")


def test_of_starts_the_one_whose_trigger_waits_is_busy_however_short_others_wait(
    ledger: Ledger, auditing: Auditing
) -> None:
    found = some(ledger)

    with auditing("SchedulerExecution", "UPDATE", f"NEW.id = {found[1].id}"):
        answers = start_all(ledger, found)
        again = start_all(ledger, [found[1]])  # nobody waits by now

    assert [n for n, one in enumerate(answers) if one == Busy()] == [1]
    assert again == [Busy()]
    assert len(all_started(ledger, [found[1]])) == 1


def test_of_leases_the_one_whose_trigger_waits_is_as_it_was(
    ledger: Ledger, auditing: Auditing
) -> None:
    started = all_started(ledger, some(ledger))
    ids = [one.id for one in started]

    with auditing("SchedulerExecution", "UPDATE", f"NEW.id = {ids[4]}"):
        renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE)

    assert renewal.held == {*ids[:4]}
    assert renewal.busy == {ids[4]}


def test_of_marks_the_one_whose_trigger_waits_is_made_later(
    ledger: Ledger, auditing: Auditing
) -> None:
    found = some(ledger)

    with auditing("SchedulerExecution", "UPDATE", f"NEW.id = {found[0].id}"):
        ledger.claims.mark_published(found, now=ledger.now)

    assert states(ledger, found) == [State.CLAIMED, *[State.PUBLISHED] * 4]


def test_of_what_is_handed_over_the_one_whose_trigger_waits_keeps_no_other(
    ledger: Ledger, auditing: Auditing
) -> None:
    found = some(ledger)

    with (
        auditing("SchedulerExecution", "UPDATE", f"NEW.id = {found[2].id}"),
        pytest.raises(LedgerUnavailable, match=f"execution {found[2].id} locked"),
    ):
        ledger.claims.hand_over(found, now=ledger.now)

    found_now = states(ledger, found)
    assert found_now.pop(2) is State.CLAIMED
    assert found_now == [State.HANDED_OVER] * 4


def test_of_the_overdue_those_whose_trigger_waits_are_passed_over(
    ledger: Ledger, auditing: Auditing
) -> None:
    found = some(ledger, 9)
    ledger.clock.advance(DAY)

    def overdue() -> list[int]:
        taken = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=9)
        return sorted(one.id for one in taken)

    with auditing("SchedulerExecution", "UPDATE", f"NEW.id < {found[3].id}"):
        beside, again = overdue(), overdue()
    ledger.clock.advance(MINUTE)

    assert (beside, again) == ([one.id for one in found[3:]], [])
    assert set(overdue()) >= {one.id for one in found[:3]}


def test_of_the_overdue_those_that_nobody_asked_for_are_taken_once_they_are_free(
    ledger: Ledger, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bisection, "LOCKED_BUDGET", 1e-9)  # over with the first that is held
    found = some(ledger, 20)
    ledger.clock.advance(DAY)

    with auditing("SchedulerExecution", "UPDATE", "1 = 1"):
        assert not ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=20)
    taken = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=20)

    assert len(taken) == len(found) - 1


def test_of_what_nobody_would_find_the_one_whose_trigger_waits_is_passed_over(
    ledger: Ledger, auditing: Auditing, mysql_shell: Shell
) -> None:
    found = some(ledger)
    mysql_shell("UPDATE SchedulerExecution SET check_at = NULL")

    with auditing("SchedulerExecution", "UPDATE", f"NEW.id = {found[2].id}"):
        assert ledger.claims.regain(now=ledger.now, limit=9) == 4


def test_of_doubts_output_and_ends_the_one_whose_trigger_waits_keeps_no_other(
    ledger: Ledger, auditing: Auditing
) -> None:
    held, other = all_started(ledger, some(ledger, 2))
    said = Captured(head="half\n", bytes=5)
    written = [
        Written(execution_id=one.id, attempt=1, stdout=said, stderr=Captured())
        for one in (held, other)
    ]
    with auditing("AttemptOutput", "INSERT", f"NEW.execution_id = {held.id}"):
        ledger.attempts.keep_written(written, now=ledger.now, node="ant")
    assert [bool(ledger.records.output(one.id)) for one in (held, other)] == [False, True]

    failed = [ledger.failed(name) for name in ("held", "innocent")]
    ledger.clock.advance(GRACES.ended)
    with auditing("FailedTask", "UPDATE", f"NEW.id = {failed[0].id}"):
        found = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)
        ledger.claims.mark_ends_published([one.ticket for one in failed])
    assert [one.id for one in found] == [failed[1].id]


def test_a_failure_that_is_told_of_what_somebody_holds_waits_alone(
    ledger: Ledger, holding: Holding
) -> None:
    [one] = some(ledger, 1)
    ledger.claims.hand_over([one], now=ledger.now)
    ticket = AttemptRef(execution_id=one.id, attempt=one.attempt)
    failure = told(one.scheduler_id, ticket)

    with holding(f"SELECT id FROM SchedulerExecution WHERE id = {one.id} FOR UPDATE"):
        with pytest.raises(LedgerBusy, match="keeps rows"):
            ledger.records.keep_failure(failure, now=ledger.now, node="ant")
        beside = ledger.records.keep_failure(told(4_711, None), now=ledger.now, node="ant")
    after = ledger.records.keep_failure(failure, now=ledger.now, node="ant")

    assert all(isinstance(kept, Archived) for kept in (beside, after))


def test_an_insert_that_waits_keeps_nobody_from_a_number_for_good(
    ledger: Ledger, holding: Holding, migrated_mysql: URL
) -> None:
    """Whoever inserts many keeps the numbers of the table while he waits, which is no last one."""
    ids = [ledger.add(f"report-{place}") for place in range(3)]
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    ledger.save(draft("innocent"))
    ledger.plan_edited()
    waits = Event()

    def insert() -> None:
        with connect(migrated_mysql) as session, session.cursor() as cursor:
            cursor.execute("SET innodb_lock_wait_timeout = 4")
            waits.set()
            with pytest.raises(Exception, match="1205"):
                cursor.execute(
                    "INSERT INTO SchedulerExecution (scheduler_id, execution_key, executed_at, "
                    f"container_id) SELECT {ids[1]}, 'cron-0', NOW(), 'me' FROM DUAL"
                )

    rows = "SchedulerExecution FORCE INDEX (ux_execution_key)"
    run(migrated_mysql, f"UPDATE Scheduler SET status = 0 WHERE id <= {ids[2]}")
    ledger.plan_edited()
    with holding(f"SELECT id FROM {rows} WHERE scheduler_id = {ids[1]} FOR UPDATE"):
        inserting = Thread(target=insert)
        inserting.start()
        waits.wait()
        ledger.clock.advance(MINUTE)
        claimed = ledger.claim_due().claimed
        inserting.join()

    assert [one.schedule_name for one in claimed] == ["innocent"]

"""Texts that the database finds and we read otherwise: blanks at the end, letters of another case.

Our columns compare as `utf8mb4_bin` does, which pads: `'running ' = 'running'`. A column that
somebody made, or changed, may fold the case as well.
"""

import logging
from datetime import timedelta

import pytest
from sqlalchemy import URL

from cronhare.adapters.sql import open_engine, upgrade
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.retries.retry import Complete
from cronhare.ports.attempts import Finish, Superseded
from cronhare.ports.ledger import LedgerRefused
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import LEASE, SUCCESS, Ledger, Shell, draft, sql_ledger
from tests.integration.rules import Holding, all_started, some
from tests.ports import ids_of
from tests.services.mariadb import run

pytestmark = pytest.mark.integration

DAY = timedelta(days=1)
PADDED = "UPDATE SchedulerExecution SET state = CONCAT(state, ' ') WHERE id IN ({ids})"


@pytest.fixture
def ledger(mysql: Ledger) -> Ledger:
    mysql.plan_edited()
    return mysql


def pad(shell: Shell, found: list[Execution]) -> None:
    shell(PADDED.format(ids=", ".join(str(one.id) for one in found)))


@pytest.mark.parametrize("state", ["claimed", "published"])
def test_pages_of_padded_states_hide_nothing_that_is_overdue(
    ledger: Ledger, mysql_shell: Shell, state: str
) -> None:
    *spoilt, innocent = some(ledger, 7)
    if state == "published":
        ledger.claims.mark_published([*spoilt, innocent], now=ledger.now)
    pad(mysql_shell, spoilt)
    ledger.clock.advance(DAY)

    pages = [ledger.overdue(limit=2) for _ in range(5)]

    assert [len(page) for page in pages] == [2, 2, 2, 1, 0]
    assert pages[3] == [innocent.id]
    assert len(ledger.records.archive()) == 6


@pytest.mark.parametrize("look", ["lapsed", "run_by"])
def test_pages_of_padded_states_hide_no_attempt_that_was_lost(
    ledger: Ledger, mysql_shell: Shell, look: str
) -> None:
    *spoilt, innocent = all_started(ledger, some(ledger, 7))
    pad(mysql_shell, spoilt)
    ledger.clock.advance(LEASE)

    def page() -> list[int]:
        return ledger.lapsed(limit=2) if look == "lapsed" else ledger.run_by("ant", limit=2)

    pages = [page() for _ in range(4)]

    assert [len(each) for each in pages] == [2, 2, 2, 1]
    assert pages[3] == [innocent.id]
    assert {row.kind for row in ledger.records.archive()} == {State.QUARANTINED.value}


def test_a_state_in_capitals_is_set_apart_where_the_column_folds_the_case(
    empty_mysql: URL, clock: FrozenClock
) -> None:
    engine = open_engine(empty_mysql.render_as_string(hide_password=False))
    upgrade(engine)
    ledger = sql_ledger(clock, engine)
    ledger.plan_edited()
    waiting, running = ledger.published("waiting"), ledger.running("running")
    run(
        empty_mysql,
        "ALTER TABLE SchedulerExecution MODIFY state VARCHAR(16) CHARACTER SET utf8mb4 "
        "COLLATE utf8mb4_general_ci NOT NULL",
        "UPDATE SchedulerExecution SET state = UPPER(state)",
    )
    ledger.clock.advance(DAY)

    found = (ledger.overdue(), ledger.lapsed())
    again = (ledger.overdue(), ledger.lapsed())

    assert found == ([waiting.id], [running.id])
    assert again == ([], [])
    assert [ledger.seen(one).state for one in (waiting, running)] == [State.QUARANTINED] * 2
    engine.dispose()


@pytest.mark.parametrize("look", ["lapsed", "run_by"])
def test_a_broken_row_that_cannot_be_set_apart_is_passed_over_and_told_once(
    ledger: Ledger,
    mysql_shell: Shell,
    holding: Holding,
    caplog: pytest.LogCaptureFixture,
    look: str,
) -> None:
    *spoilt, innocent = all_started(ledger, some(ledger, 5))
    pad(mysql_shell, spoilt)
    ledger.clock.advance(LEASE)
    ids = ", ".join(str(one.id) for one in spoilt)

    with (
        caplog.at_level(logging.ERROR),
        holding(f"SELECT id FROM SchedulerExecution WHERE id IN ({ids}) FOR UPDATE"),
    ):
        if look == "lapsed":
            found = ledger.claims.lapsed(now=ledger.now, limit=4)
            others = ledger.lapsed(limit=4)
        else:
            found = ledger.claims.run_by(["ant"], limit=4)
            others = ledger.run_by("ant", limit=4)

    assert {one.state for one in found} == {State.RUNNING}  # quarantined it is not
    assert others == [innocent.id]
    [told] = caplog.messages
    assert f"cannot be set apart now, and are passed over for a minute: execution {ids}" in told
    assert ledger.records.archive() == []
    ledger.clock.advance(timedelta(minutes=1))
    assert ledger.lapsed(limit=4) == [one.id for one in spoilt]
    assert len(ledger.records.archive()) == 4


@pytest.mark.parametrize("state", ["running ", "paused"])
def test_the_end_of_an_attempt_whose_state_somebody_spoilt_keeps_no_other_from_its_own(
    ledger: Ledger, mysql_shell: Shell, state: str
) -> None:
    spoilt, sound = all_started(ledger, some(ledger, 2))
    mysql_shell(f"UPDATE SchedulerExecution SET state = '{state}' WHERE id = {spoilt.id}")

    answers = ledger.attempts.finish(
        [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in (spoilt, sound)],
        now=ledger.now,
        node="ant",
    )

    assert answers == [Superseded(), State.SUCCEEDED]


def test_an_owner_with_a_blank_is_a_node_that_can_be_given_up(
    ledger: Ledger, mysql_shell: Shell
) -> None:
    [running] = all_started(ledger, some(ledger, 1))
    mysql_shell("UPDATE SchedulerExecution SET owner = 'ant '")

    assert ledger.finish(running, Complete(), SUCCESS) == Superseded()
    ledger.clock.advance(LEASE)
    [lost] = ledger.claims.lapsed(now=ledger.now, limit=9)
    [answer] = ledger.attempts.give_up(
        [Finish(execution=lost, ran=SUCCESS, verdict=Complete())], now=ledger.now
    )
    assert answer is State.SUCCEEDED


def test_an_instant_whose_key_has_a_blank_is_claimed_already_and_keeps_no_other(
    ledger: Ledger, mysql_shell: Shell
) -> None:
    ledger.add("spoilt")
    ledger.add("sound")
    ledger.clock.advance(timedelta(minutes=1))
    first = [one.schedule_name for one in ledger.claim_due().claimed]
    spoilt = ids_of(ledger.schedules, ["spoilt"])["spoilt"]
    mysql_shell(
        "UPDATE SchedulerExecution SET execution_key = CONCAT(execution_key, ' ') "
        f"WHERE scheduler_id = {spoilt}"
    )
    mysql_shell(
        "UPDATE SchedulerPlan SET next_due_at = next_due_at - INTERVAL 1 MINUTE "
        f"WHERE scheduler_id = {spoilt}"
    )

    again = ledger.claim_due().claimed
    ledger.clock.advance(timedelta(minutes=1))
    later = [one.schedule_name for one in ledger.claim_due().claimed]

    assert (sorted(first), list(again)) == (["sound", "spoilt"], [])
    assert sorted(later) == ["sound", "spoilt"]
    assert len(ledger.claims.overdue(now=ledger.now + DAY, graces=Graces(), limit=9)) == 4


@pytest.mark.parametrize("name", ["report ", "report   "])
def test_a_schedule_is_not_written_beside_one_whose_name_is_the_same_to_the_table(
    ledger: Ledger, mysql_shell: Shell, name: str
) -> None:
    id_ = ledger.add("report")
    mysql_shell(f"UPDATE Scheduler SET name = '{name}' WHERE id = {id_}")

    with pytest.raises(LedgerRefused) as refused:
        ledger.save(draft("other"), draft("report"))

    told = f"row {id_} of Scheduler is named {name!r}, and the table takes that for 'report'"
    assert told in str(refused.value)
    assert [each.name for each in ledger.schedules.schedules()] == [name]

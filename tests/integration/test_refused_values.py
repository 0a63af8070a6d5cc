"""Values that the database itself refuses: the one they belong to is set apart, no other waits."""

import pytest

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder, ReplayState
from cronhare.domain.messages import TaskMessage
from cronhare.domain.retries.retry import Complete
from cronhare.ports import LedgerOutdated, LedgerRefused
from cronhare.ports.attempts import Finish, Refused
from tests.integration.ledgers import (
    MINUTE,
    SUCCESS,
    Ledger,
    Shell,
    draft,
)
from tests.integration.rules import SAYS, Refusing, all_started, claim_all, some, states


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


def test_of_schedules_the_one_whose_runs_are_refused_is_left_out(
    ledger: Ledger, refusing: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [ledger.add(f"report-{number}") for number in range(5)]
    ledger.clock.advance(MINUTE)

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {ids[2]}"):
        claimed = [one.scheduler_id for one in claim_all(ledger)]

    assert claimed == [id_ for id_ in ids if id_ != ids[2]]
    [said] = caplog.messages
    assert said.startswith("Schedule report-2 is passed over for a minute")
    assert SAYS in said
    ledger.clock.advance(MINUTE)
    assert ids[2] in {one.scheduler_id for one in ledger.claim_due().claimed}


def test_a_message_whose_row_is_refused_is_refused(ledger: Ledger, refusing: Refusing) -> None:
    id_ = ledger.add()
    message = TaskMessage(scheduler_id=id_, type="report", id=25, params_scheduler="{}")

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {id_}"):
        answer = ledger.attempts.adopt(
            message, key="manual-x", queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
        )

    assert isinstance(answer, Refused)
    assert SAYS in answer.reason


def test_of_edits_none_is_made_where_one_is_refused(ledger: Ledger, refusing: Refusing) -> None:
    ledger.save(draft("changed"), draft("gone"))
    before = ledger.schedules.schedules()
    wanted = [draft("changed", params='{"v":2}'), draft("new")]

    with (
        refusing("Scheduler", "UPDATE", "NEW.status = 0"),
        pytest.raises(LedgerRefused, match=SAYS),
    ):
        ledger.schedules.save(
            wanted,
            source=None,
            now=ledger.now + MINUTE,
            disabled=["gone"],
        )

    assert ledger.schedules.schedules() == before


@pytest.mark.parametrize("edited", [False, True])
def test_of_plans_one_that_cannot_be_written_at_all_stops_no_other(
    ledger: Ledger, refusing: Refusing, *, edited: bool
) -> None:
    ids = [ledger.add(f"report-{number}") for number in range(5)]
    ledger.clock.advance(MINUTE)
    if edited:
        ledger.save(*(draft(f"report-{number}", schedule="*/1 * * * *") for number in range(5)))
    claimed: list[int] = []

    with refusing("SchedulerPlan", "UPDATE", f"NEW.scheduler_id = {ids[2]}"):
        if edited:
            while ledger.plan_edited().more:
                pass
            ledger.clock.advance(MINUTE)
        for _ in range(5):
            claimed += [one.scheduler_id for one in ledger.claim_due().claimed]

    assert sorted(claimed) == [id_ for id_ in ids if id_ != ids[2]]


def test_a_column_of_ours_that_is_gone_is_an_old_schema_and_no_fault_of_a_row(
    ledger: Ledger, shell: Shell
) -> None:
    started = all_started(ledger, some(ledger, 2))
    finishes = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in started]
    shell("ALTER TABLE ExecutionAttempt RENAME COLUMN cpu_seconds TO cpu")
    try:
        with pytest.raises(LedgerOutdated, match=r"cpu_seconds.*run `cronhare db upgrade`"):
            ledger.attempts.finish(finishes, now=ledger.now, node="ant")
        with pytest.raises(LedgerOutdated, match=r"cpu_seconds.*run `cronhare db upgrade`"):
            ledger.records.attempts(started[0].id)
    finally:
        shell("ALTER TABLE ExecutionAttempt RENAME COLUMN cpu TO cpu_seconds")

    assert states(ledger, started) == [State.RUNNING] * 2


@pytest.mark.parametrize(
    ("table", "event", "when"),
    [
        ("ReplayItem", "INSERT", "NEW.archived_id = {broken.id}"),
        ("SchedulerExecution", "UPDATE", "NEW.id = {broken.execution_id}"),
    ],
)
def test_a_replay_of_which_something_is_refused_stops_alone_and_can_go_on(
    ledger: Ledger, refusing: Refusing, table: str, event: str, when: str
) -> None:
    broken, innocent = ledger.failed("broken"), ledger.failed("innocent")
    refused, _ = (
        ledger.replays.order(
            ReplayOrder(which=FailureFilter(schedule=one.schedule_name)), now=ledger.now
        )
        for one in (broken, innocent)
    )

    with refusing(table, event, when.format(broken=broken)):
        stopped = ledger.advanced()
        [begun] = ledger.advanced().executions
    ledger.replays.resume(refused.id, now=ledger.now)
    [resumed] = ledger.advanced().executions

    assert (stopped.replay.id, stopped.replay.state) == (refused.id, ReplayState.STOPPED)
    assert SAYS in str(stopped.replay.reason)
    assert list(stopped.executions) == []
    assert (begun.id, resumed.id) == (innocent.execution_id, broken.execution_id)

"""Values that the database itself refuses: the one they belong to is set apart, no other waits."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from cronhare.adapters.memory.bell import SilentBell
from cronhare.adapters.sql.attempts import starts
from cronhare.adapters.sql.isolation import quarantine
from cronhare.adapters.sql.transactions.database import Database
from cronhare.application.administration.commands import Administrator
from cronhare.application.outcome_log import log_outcome
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.failure_filter import UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.retry_policies import RetryPolicies
from cronhare.domain.messages.messages import TaskMessage
from cronhare.domain.retries.retry import Complete, RetryPolicy, Verdict
from cronhare.domain.schedules.boot import Boot
from cronhare.entrypoints.processes.worker import run_at_start, run_for
from cronhare.ports.attempts import Apart, Busy, EndRefused, Finish, Recorded, Refused
from cronhare.ports.ledger import LedgerOutdated, LedgerRefused, LedgerUnavailable
from cronhare.ports.records import Retention
from cronhare.ports.runner import AttemptResult, Captured
from tests.integration.ledgers import (
    FAILURE,
    FOR_GOOD,
    GRACES,
    LEASE,
    LOSS,
    MICROSECOND,
    MINUTE,
    SECOND,
    SUCCESS,
    Ledger,
    Shell,
    draft,
)
from tests.integration.rules import SAYS, Refusing, all_started, apart, some, start_all, states
from tests.ports import ids_of

DAY = timedelta(days=1)


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


def test_of_starts_the_one_that_is_refused_is_set_apart(ledger: Ledger, refusing: Refusing) -> None:
    found = some(ledger)
    broken = found[2]

    with refusing("ExecutionAttempt", "INSERT", f"NEW.execution_id = {broken.id}"):
        answers = start_all(ledger, found)

    assert [type(one) for one in answers] == [Execution, Execution, Refused, Execution, Execution]
    assert SAYS in apart(ledger, broken)
    assert [kept.execution_id for kept in ledger.records.archive()] == [broken.id]


@pytest.mark.parametrize(
    ("table", "event", "when", "lost"),
    [
        ("FailedTask", "INSERT", "NEW.execution_id = {}", False),
        ("FailedTask", "INSERT", "NEW.execution_id = {}", True),
        ("AttemptOutput", "INSERT", "NEW.execution_id = {}", False),
        ("ExecutionAttempt", "UPDATE", "NEW.execution_id = {}", False),
        ("ExecutionAttempt", "UPDATE", "NEW.execution_id = {}", True),
        ("SchedulerExecution", "UPDATE", "NEW.id = {} AND NEW.state <> 'quarantined'", False),
        ("SchedulerExecution", "UPDATE", "NEW.id = {} AND NEW.state <> 'quarantined'", True),
    ],
)
def test_of_ends_the_one_that_is_refused_is_set_apart(
    ledger: Ledger, refusing: Refusing, table: str, event: str, when: str, *, lost: bool
) -> None:
    started = all_started(ledger, some(ledger))
    broken = started[3]
    ran = (
        LOSS
        if lost
        else AttemptResult(outcome=SUCCESS.outcome, stdout=Captured(head="said", bytes=4))
    )
    finishes = [Finish(execution=one, ran=ran, verdict=FOR_GOOD) for one in started]

    with refusing(table, event, when.format(broken.id)):
        if lost:
            answers = ledger.attempts.give_up(finishes, now=ledger.now)
        else:
            answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    assert SAYS in apart(ledger, broken)
    assert states(ledger, started) == [
        State.QUARANTINED if one is broken else State.FAILED for one in started
    ]
    assert answers.count(State.FAILED) == 4
    refused = answers[3]
    assert isinstance(refused, EndRefused)
    assert refused.is_over
    archived = [kept for kept in ledger.records.archive() if kept.execution_id == broken.id]
    assert (refused.apart is Apart.ARCHIVED) == bool(archived)


@pytest.mark.parametrize(
    "end",
    [(SUCCESS, Complete(), "succeeded"), (FAILURE, FOR_GOOD, "failed, exit code 1")],
)
def test_of_an_end_that_is_refused_one_line_tells_how_it_ended_and_why(
    ledger: Ledger,
    refusing: Refusing,
    caplog: pytest.LogCaptureFixture,
    end: tuple[AttemptResult, Verdict, str],
) -> None:
    ran, verdict, ended = end
    execution = ledger.running()
    finish = Finish(execution=execution, ran=ran, verdict=verdict)

    with refusing("SchedulerExecution", "UPDATE", "NEW.state IN ('succeeded', 'failed')"):
        answer = ledger.finish(execution, verdict, ran)
    again = ledger.finish(execution, verdict, ran)
    assert isinstance(answer, EndRefused)
    log_outcome(finish, answer, duration="2ms", policies=RetryPolicies(RetryPolicy()))

    [line] = caplog.records
    assert line.__dict__["action"] == "execution.refused"
    assert f"it ended ({ended})" in line.getMessage()
    assert SAYS in line.getMessage()
    assert again == answer
    assert apart(ledger, execution) == answer.reason
    [attempt] = ledger.records.attempts(execution.id)
    assert (attempt.ending, attempt.exit_code) == (ran.outcome.ending, ran.outcome.exit_code)


def test_an_end_of_which_only_the_state_can_be_written_is_told_by_nobody_else(
    ledger: Ledger, refusing: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    execution = ledger.running()

    with refusing("SchedulerExecution", "UPDATE", "NEW.version > OLD.version"):
        answer = ledger.finish(execution, Complete(), SUCCESS)

    assert isinstance(answer, EndRefused)
    assert "it ended (succeeded)" in answer.reason
    assert answer.reason in apart(ledger, execution)
    assert caplog.records == []


def test_of_leases_the_one_that_is_refused_is_let_go(ledger: Ledger, shell: Shell) -> None:
    started = all_started(ledger, some(ledger))
    broken = started[1]
    largest = 2**63 - 1  # SQLite would go on in floating point numbers
    shell(
        f"UPDATE SchedulerExecution SET version = {min(largest, 2**31 - 1)} WHERE id = {broken.id}"
    )

    ids = [one.id for one in started]
    renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE * 2)

    assert renewal.held >= {one.id for one in started if one is not broken}
    assert {ledger.seen(one).lease_until for one in started if one is not broken} == {
        ledger.now + LEASE * 2
    }


def test_of_leases_the_one_that_a_rule_refuses_is_set_apart(
    ledger: Ledger, refusing: Refusing
) -> None:
    started = all_started(ledger, some(ledger))
    broken = started[1]
    when = f"NEW.id = {broken.id} AND NEW.state = 'running'"

    with refusing("SchedulerExecution", "UPDATE", when):
        ids = [one.id for one in started]
        renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE)

    assert renewal.held == {one.id for one in started if one is not broken}
    assert SAYS in apart(ledger, broken)


def test_of_schedules_the_one_whose_runs_are_refused_is_left_out(
    ledger: Ledger, refusing: Refusing
) -> None:
    ids = [ledger.add(f"report-{number}") for number in range(5)]
    ledger.clock.advance(MINUTE)
    claimed: list[int] = []
    problems: list[tuple[str, str]] = []
    more = True

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {ids[2]}"):
        while more:
            batch = ledger.claim_due()
            claimed += [one.scheduler_id for one in batch.claimed]
            problems += batch.problems
            more = batch.more

    assert sorted(claimed) == [id_ for id_ in ids if id_ != ids[2]]
    [(name, problem)] = problems
    assert name == "report-2"
    assert SAYS in problem
    ledger.clock.advance(MINUTE)
    assert ids[2] in {one.scheduler_id for one in ledger.claim_due().claimed}


def test_of_edits_the_one_whose_plan_is_refused_keeps_no_other_waiting(
    ledger: Ledger, refusing: Refusing
) -> None:
    ledger.save(*(draft(f"report-{number}") for number in range(5)))
    broken = ids_of(ledger.schedules, ["report-2"])["report-2"]
    when = f"NEW.scheduler_id = {broken} AND NEW.problem IS NULL"

    with refusing("SchedulerPlan", "INSERT", when):
        more = True
        while more:
            more = ledger.plan_edited().more
    ledger.clock.advance(MINUTE)

    assert len(ledger.claim_due().claimed) == 4


def test_of_marks_the_one_that_is_refused_is_set_apart(ledger: Ledger, refusing: Refusing) -> None:
    found = some(ledger)
    broken = found[0]
    when = f"NEW.id = {broken.id} AND NEW.state <> 'quarantined'"

    with refusing("SchedulerExecution", "UPDATE", when):
        ledger.claims.mark_published(found, now=ledger.now)

    assert SAYS in apart(ledger, broken)
    assert states(ledger, found[1:]) == [State.PUBLISHED] * 4


def test_of_the_overdue_the_one_that_is_refused_is_set_apart(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger)
    broken = found[2]
    ledger.clock.advance(DAY)
    when = f"NEW.id = {broken.id} AND NEW.state <> 'quarantined'"
    taken: set[int] = set()

    with refusing("SchedulerExecution", "UPDATE", when):
        for _ in range(20):
            taken.update(
                one.id for one in ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=5)
            )

    assert taken >= {one.id for one in found if one is not broken}
    assert SAYS in apart(ledger, broken)


def test_a_message_whose_row_is_refused_is_refused(ledger: Ledger, refusing: Refusing) -> None:
    id_ = ledger.add()
    message = TaskMessage(scheduler_id=id_, type="report", id=25, params_scheduler="{}")

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {id_}"):
        answer = ledger.attempts.adopt(
            message, key="manual-x", queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
        )

    assert isinstance(answer, Refused)
    assert SAYS in answer.reason


def test_what_another_table_holds_fast_does_not_keep_the_cleanup_from_the_rest(
    ledger: Ledger, shell: Shell
) -> None:
    found = some(ledger)
    for one in found:
        ledger.succeeded(one)
    shell(
        "CREATE TABLE Invoice (execution_id BIGINT, "
        "FOREIGN KEY (execution_id) REFERENCES SchedulerExecution (id))"
    )
    try:
        shell(f"INSERT INTO Invoice VALUES ({found[2].id})")
        ledger.clock.advance(DAY * 400)
        deleted = ledger.records.clean_up(now=ledger.now, retention=Retention())
    finally:
        shell("DROP TABLE Invoice")

    assert deleted == 4
    assert [one.id for one in ledger.executions()] == [found[2].id]


def test_what_was_put_back_by_hand_begins_anew_with_its_row_and_its_output(
    ledger: Ledger, shell: Shell
) -> None:
    said = AttemptResult(outcome=SUCCESS.outcome, stdout=Captured(head="once", bytes=4))
    found = some(ledger)
    back = ledger.finished(found[0], Complete(), said)
    shell(
        "UPDATE SchedulerExecution SET state = 'published', finished_at = NULL "
        f"WHERE id = {back.id}"
    )

    started = all_started(ledger, found)
    [begun] = ledger.records.attempts(back.id)
    again = AttemptResult(outcome=SUCCESS.outcome, stdout=Captured(head="twice", bytes=5))
    finishes = [Finish(execution=one, ran=again, verdict=Complete()) for one in started]
    answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    assert len(started) == 5
    assert (begun.ending, begun.finished_at, begun.node) == (None, None, "ant")
    assert answers == [State.SUCCEEDED] * 5
    assert [output.stdout.head for output in ledger.records.output(back.id)] == ["twice"]


def test_of_edits_none_is_made_where_one_is_refused(ledger: Ledger, refusing: Refusing) -> None:
    ledger.save(draft("changed"), draft("gone"), draft("unnamed"))
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
            task_names={"unnamed": "backup"},
            disabled=["gone"],
        )

    assert ledger.schedules.schedules() == before


def test_a_run_that_is_refused_keeps_no_other_from_a_start_or_a_boot(
    ledger: Ledger, refusing: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    refused, _ = (ledger.add(name, schedule=None) for name in ("refused", "fine"))
    ledger.clock.advance(MINUTE)
    administrator = Administrator(
        schedules=ledger.schedules,
        records=ledger.records,
        names=ledger.asked,
        node="ant",
        uuid=uuid4,
        policy=RetryPolicy(),
        bell=SilentBell(),
        trail=ledger.trail,
    )
    names = ("unknown", "refused", "fine")

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {refused}"):
        run_at_start(administrator, names, now=ledger.now)
        run_for(Boot("one", ago=1), administrator, names, now=ledger.now)

    assert [row.schedule_name for row in ledger.executions()] == ["fine", "fine"]
    told = [line for line in caplog.messages if "cannot run at" in line]
    assert [SAYS in line for line in told] == [False, True, False, True]


def refusing_all(one: Execution) -> tuple[str, str, str]:
    """Name a rule that lets nobody change an execution, not even to set it apart."""
    return "SchedulerExecution", "UPDATE", f"NEW.id = {one.id}"


def test_of_the_overdue_one_that_cannot_even_be_set_apart_stops_no_other(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger)
    ledger.clock.advance(DAY)

    with refusing(*refusing_all(found[0])):
        first = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=1)
        rest = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=5)

    assert [one.id for one in (*first, *rest)] == [one.id for one in found[1:]]


def test_of_the_overdue_all_that_are_sound_are_taken_at_once(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger, 20)
    ledger.clock.advance(DAY)
    when = f"NEW.id < {found[15].id} AND NEW.state <> 'quarantined'"

    with refusing("SchedulerExecution", "UPDATE", when):
        taken = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=20)

    assert [one.id for one in taken] == [one.id for one in found[15:]]
    assert states(ledger, found[:15]) == [State.QUARANTINED] * 15


def test_what_was_passed_over_is_looked_for_again(ledger: Ledger, refusing: Refusing) -> None:
    [broken, _] = some(ledger, 2)
    ledger.clock.advance(DAY)
    with refusing(*refusing_all(broken)):
        ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=5)

    ledger.clock.advance(MINUTE)

    again = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=5)
    assert broken.id in {one.id for one in again}


def test_of_the_lapsed_one_that_cannot_even_be_set_apart_stops_no_other(
    ledger: Ledger, refusing: Refusing
) -> None:
    started = all_started(ledger, some(ledger))
    ledger.clock.advance(DAY)
    given_up: list[Recorded | Busy] = []

    with refusing(*refusing_all(started[0])):
        for _ in range(6):  # pages of one
            lapsed = ledger.claims.lapsed(now=ledger.now, limit=1)
            finishes = [Finish(execution=one, ran=LOSS, verdict=FOR_GOOD) for one in lapsed]
            given_up += ledger.attempts.give_up(finishes, now=ledger.now)

    assert states(ledger, started) == [State.RUNNING, *[State.FAILED] * 4]


def test_of_ends_one_that_cannot_even_be_set_apart_stops_no_other(
    ledger: Ledger, refusing: Refusing
) -> None:
    started = all_started(ledger, some(ledger))
    finishes = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in started]

    with refusing(*refusing_all(started[2])):
        answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    answer = answers[2]
    assert isinstance(answer, EndRefused)
    assert answer.apart is Apart.NEITHER
    assert SAYS in answer.reason
    assert states(ledger, started) == [
        State.RUNNING if one is started[2] else State.SUCCEEDED for one in started
    ]


def test_of_marks_one_that_cannot_even_be_set_apart_stops_no_other(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger)

    with refusing(*refusing_all(found[0])):
        ledger.claims.mark_published(found, now=ledger.now)

    assert states(ledger, found) == [State.CLAIMED, *[State.PUBLISHED] * 4]


def test_of_leases_one_that_cannot_even_be_set_apart_stops_no_other(
    ledger: Ledger, refusing: Refusing
) -> None:
    started = all_started(ledger, some(ledger))

    with refusing(*refusing_all(started[4])):
        ids = [one.id for one in started]
        renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE)

    assert renewal.held == set(ids[:4])


def test_of_doubts_the_one_that_is_refused_is_left(ledger: Ledger, refusing: Refusing) -> None:
    found = some(ledger)
    ledger.claims.mark_published(found, now=ledger.now)
    since = ledger.now + MICROSECOND
    ledger.clock.advance(2 * MINUTE)

    with refusing(*refusing_all(found[1])):
        ledger.claims.doubt(since=since, now=ledger.now, after=0, limit=5)
        overdue = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=5)

    assert {one.id for one in overdue} == {one.id for one in found if one is not found[1]}


def test_of_strays_the_one_that_is_refused_keeps_no_other_lost(
    ledger: Ledger, refusing: Refusing, shell: Shell
) -> None:
    found = some(ledger)
    shell("UPDATE SchedulerExecution SET check_at = NULL")

    with refusing(*refusing_all(found[0])):
        counts = [ledger.claims.regain(now=ledger.now, limit=1) for _ in range(6)]
        regained = ledger.claims.regain(now=ledger.now, limit=5)

    assert (sum(counts), regained) == (4, 0)


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


def test_a_plan_without_a_schedule_that_cannot_be_dropped_stops_no_other(
    ledger: Ledger, refusing: Refusing, shell: Shell, database: str
) -> None:
    ids = [ledger.add(f"report-{number}") for number in range(3)]
    ledger.clock.advance(MINUTE)
    if database == "sqlite":  # the others refer to no schedule
        shell("PRAGMA foreign_keys = OFF")
    shell(f"DELETE FROM Scheduler WHERE id = {ids[0]}")
    claimed: list[int] = []

    with refusing("SchedulerPlan", "DELETE", f"OLD.scheduler_id = {ids[0]}"):
        for _ in range(3):
            claimed += [one.scheduler_id for one in ledger.claim_due().claimed]

    assert sorted(claimed) == ids[1:]


def test_a_rule_that_refuses_all_starts_is_an_outage_and_sets_none_apart(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger)

    with (
        refusing("ExecutionAttempt", "INSERT", "1 = 1"),
        pytest.raises(LedgerUnavailable, match=SAYS),
    ):
        start_all(ledger, found)

    assert states(ledger, found) == [State.CLAIMED] * 5
    assert len(all_started(ledger, found)) == 5


def test_starts_that_are_refused_are_set_apart_if_another_that_waits_could_start(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger)
    other = found.pop()

    with refusing("ExecutionAttempt", "INSERT", f"NEW.execution_id < {other.id}"):
        answers = start_all(ledger, found)

    assert [type(one) for one in answers] == [Refused] * 4
    assert states(ledger, found) == [State.QUARANTINED] * 4
    assert ledger.seen(other) == other


def end_in_vain_and_then_all(
    ledger: Ledger, refusing: Refusing, finishes: Sequence[Finish]
) -> None:
    """End attempts while a rule refuses all ends, and once more when it is gone."""
    with (
        refusing("ExecutionAttempt", "UPDATE", "1 = 1"),
        pytest.raises(LedgerUnavailable, match=SAYS),
    ):
        ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")
    assert answers == [State.SUCCEEDED] * 5


def test_a_rule_that_refuses_all_ends_is_an_outage_and_loses_no_result(
    ledger: Ledger, refusing: Refusing
) -> None:
    started = all_started(ledger, some(ledger))
    finishes = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in started]

    end_in_vain_and_then_all(ledger, refusing, finishes)


def test_a_rule_that_refuses_all_leases_and_comes_back_sets_none_apart(
    ledger: Ledger, refusing: Refusing
) -> None:
    started = all_started(ledger, some(ledger))
    ids = [one.id for one in started]

    for _ in range(3):
        ledger.clock.advance(timedelta(seconds=1))
        with (
            refusing("SchedulerExecution", "UPDATE", "NEW.lease_until > OLD.lease_until"),
            pytest.raises(LedgerUnavailable, match=SAYS),
        ):
            ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE)
        renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE)
        assert renewal.held == set(ids)

    assert states(ledger, started) == [State.RUNNING] * 5


def test_a_rule_that_refuses_all_that_waits_sets_none_apart(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger)
    ledger.clock.advance(DAY)

    with refusing("SchedulerExecution", "UPDATE", "NEW.state <> 'quarantined'"):
        ledger.claims.mark_published(found, now=ledger.now)
        taken = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=5)

    assert not taken
    assert states(ledger, found) == [State.CLAIMED] * 5


def test_a_mark_that_finds_nothing_to_change_proves_no_other_guilty(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger, 20)
    ledger.started(found[7])

    with refusing("SchedulerExecution", "UPDATE", "NEW.state = 'published'"):
        ledger.claims.mark_published(found, now=ledger.now)

    assert ledger.seen(found.pop(7)).state is State.RUNNING
    assert states(ledger, found) == [State.CLAIMED] * 19


def test_a_mark_of_what_was_sent_again_proves_nobody_guilty_who_was_sent_first(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger, 3)
    ledger.claims.mark_published(found[:1], now=ledger.now)
    sent = [ledger.seen(found[0]), *found[1:]]

    with refusing("SchedulerExecution", "UPDATE", "OLD.state = 'claimed'"):
        ledger.claims.mark_published(sent, now=ledger.now)

    assert states(ledger, found) == [State.PUBLISHED, State.CLAIMED, State.CLAIMED]


def test_a_hand_over_that_finds_nothing_to_change_proves_no_other_guilty(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger, 4)
    ledger.started(found[0])

    with refusing("SchedulerExecution", "UPDATE", "NEW.state = 'handed-over'"):
        ledger.claims.hand_over(found, now=ledger.now)

    assert states(ledger, found) == [State.RUNNING, *[State.CLAIMED] * 3]


def test_an_end_that_was_recorded_before_proves_no_other_guilty(
    ledger: Ledger, refusing: Refusing
) -> None:
    started = all_started(ledger, some(ledger))
    finishes = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in started]
    ledger.attempts.finish(finishes[:1], now=ledger.now, node="ant")

    end_in_vain_and_then_all(ledger, refusing, finishes)


def test_a_start_that_is_held_already_proves_no_other_guilty(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger)
    start_all(ledger, found[:1])

    with (
        refusing("ExecutionAttempt", "INSERT", "1 = 1"),
        pytest.raises(LedgerUnavailable, match=SAYS),
    ):
        start_all(ledger, found)

    assert states(ledger, found) == [State.RUNNING, *[State.CLAIMED] * 4]


def test_what_another_replica_has_started_is_not_set_apart(
    ledger: Ledger, refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = some(ledger, 2)
    quarantine_and_log = quarantine.quarantine_and_log

    def after_another_has_started_it(*args: Any, still: Callable[[Execution], bool]) -> None:  # noqa: ANN401
        ledger.started(found[0], node="bee")
        quarantine_and_log(*args, still=still)

    monkeypatch.setattr(starts, "quarantine_and_log", after_another_has_started_it)
    when = f"NEW.node = 'ant' AND NEW.execution_id = {found[0].id}"
    with refusing("ExecutionAttempt", "INSERT", when):
        answers = start_all(ledger, found)

    assert [type(one) for one in answers] == [Refused, Execution]
    assert states(ledger, found) == [State.RUNNING] * 2
    assert ledger.seen(found[0]).owner == "bee"


FAULTS_OF_A_TRIGGER = {
    "a number of its own": "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no', MYSQL_ERRNO = 30001",
    "a table that is gone": "INSERT INTO audit_gone VALUES (1)",
    "a column with a name of ours": "INSERT INTO audit_log (n, state) VALUES (1, 'x')",
    "a table with a name of ours": "INSERT INTO audit_log SELECT 1 FROM mysql.Scheduler",
    "a database that is gone": "INSERT INTO gone.Scheduler VALUES (1)",
    "a procedure that is gone": "CALL gone_procedure()",
    "two rows for one": "SET @x = (SELECT 1 UNION SELECT 2)",
    "a NULL": "INSERT INTO audit_log VALUES (NULL)",
}


@pytest.mark.integration
@pytest.mark.parametrize("body", FAULTS_OF_A_TRIGGER.values(), ids=FAULTS_OF_A_TRIGGER)
def test_whatever_a_trigger_fails_of_its_row_is_set_apart(
    mysql: Ledger, mysql_shell: Shell, body: str
) -> None:
    mysql.plan_edited()
    found = some(mysql, 3)
    mysql_shell("CREATE TABLE audit_log (n INT NOT NULL)")
    mysql_shell(
        "CREATE TRIGGER failing BEFORE INSERT ON ExecutionAttempt FOR EACH ROW "
        f"IF NEW.execution_id = {found[1].id} THEN {body}; END IF"
    )
    try:
        answers = start_all(mysql, found)
    finally:
        mysql_shell("DROP TRIGGER failing")
        mysql_shell("DROP TABLE audit_log")

    assert [type(one) for one in answers] == [Execution, Refused, Execution]
    apart(mysql, found[1])


@pytest.mark.parametrize(
    ("into", "missed"),
    [("audit_gone VALUES (1)", "audit_gone"), ("audit (state) SELECT 1", "state")],
)
def test_what_only_a_trigger_misses_is_no_old_schema(
    ledger: Ledger, shell: Shell, database: str, into: str, missed: str
) -> None:
    found = some(ledger, 2)
    begin = "CREATE TRIGGER failing BEFORE INSERT ON ExecutionAttempt FOR EACH ROW"
    shell("CREATE TABLE audit (n INTEGER)")
    body = f"BEGIN INSERT INTO {into}; END"
    if database == "postgresql":
        returning = body.replace("END", "RETURN NEW; END")
        shell(f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ {returning} $$")
        body = "EXECUTE FUNCTION fail()"
    shell(f"{begin} {body}")
    try:
        with pytest.raises(LedgerUnavailable, match=missed) as raised:
            start_all(ledger, found)
    finally:
        on_postgresql = database == "postgresql"
        shell("DROP FUNCTION fail CASCADE" if on_postgresql else "DROP TRIGGER failing")
        shell("DROP TABLE audit")

    assert not isinstance(raised.value, LedgerOutdated)
    assert len(all_started(ledger, found)) == 2


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


def test_of_ends_the_one_that_refuses_every_change_is_passed_over_and_told(
    ledger: Ledger, refusing: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    broken, innocent = ledger.failed("broken"), ledger.failed("innocent")
    ends = [one.ticket for one in (broken, innocent)]
    ledger.clock.advance(GRACES.ended)

    with refusing("FailedTask", "UPDATE", f"NEW.id = {broken.id}"):
        found = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)
        ledger.claims.mark_ends_published(ends)
    ledger.clock.advance(DAY)
    left = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)

    assert [one.id for one in found] == [innocent.id]
    assert [one.id for one in left] == [broken.id]
    [told] = [line for line in caplog.messages if line.startswith("Ends for good")]
    assert SAYS in told


def dispatched(ledger: Ledger) -> list[str]:
    """Claim what has just become due as the dispatcher does; give the names."""
    names, more = [], True
    while more:
        batch = ledger.claims.claim_due(
            now=ledger.now,
            limit=1_000,
            node="ant",
            planner=ledger.planner,
            since=ledger.now - MINUTE,
        )
        names += [one.schedule_name for one in batch.claimed]
        more = batch.more
    return sorted(names)


def test_very_many_whose_runs_are_refused_are_divided_once_a_minute(
    ledger: Ledger, refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [f"broken-{number:02}" for number in range(40)]
    ledger.save(*map(draft, broken), draft("sound"))
    ledger.plan_edited()
    last = max(ids_of(ledger.schedules, broken).values())
    ledger.clock.advance(MINUTE)
    written: list[str] = []
    write = Database.write

    def counted(database: Database, doing: str) -> AbstractContextManager[Connection]:
        written.append(doing)
        return write(database, doing)

    monkeypatch.setattr(Database, "write", counted)
    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id <= {last}"):
        first = dispatched(ledger)
        divided = len(written)
        ledger.clock.advance(SECOND)
        second = dispatched(ledger)
    ledger.clock.advance(MINUTE)

    assert (first, second) == (["sound"], [])
    assert divided < 4 * len(broken)
    assert len(written) - divided == 1
    assert {one.schedule_name for one in ledger.claim_due().claimed} >= {*broken, "sound"}


def test_one_that_was_refused_and_is_edited_is_claimed_at_once(
    ledger: Ledger, refusing: Refusing
) -> None:
    id_ = ledger.add()
    ledger.clock.advance(MINUTE + 30 * SECOND)
    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {id_}"):
        refused = dispatched(ledger)
    ledger.save(draft(params='{"v":2}'))
    ledger.plan_edited()
    ledger.clock.advance(30 * SECOND)

    assert (refused, dispatched(ledger)) == ([], ["report"])


def test_of_very_many_plans_that_cannot_be_written_at_all_none_stops_another(
    ledger: Ledger, refusing: Refusing
) -> None:
    broken = [f"broken-{number:03}" for number in range(120)]
    ledger.save(*map(draft, broken), draft("sound"))
    ledger.plan_edited()
    last = max(ids_of(ledger.schedules, broken).values())
    ledger.clock.advance(MINUTE)

    with refusing("SchedulerPlan", "UPDATE", f"NEW.scheduler_id <= {last}"):
        assert dispatched(ledger) == ["sound"]


def test_a_page_of_which_no_plan_can_be_written_is_an_outage(
    ledger: Ledger, refusing: Refusing
) -> None:
    ledger.save(*(draft(f"report-{number}") for number in range(9)))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    with (
        refusing("SchedulerPlan", "UPDATE", "1 = 1"),
        pytest.raises(LedgerUnavailable, match="of 5 schedules, one after another, none"),
    ):
        ledger.claim_due(limit=4)


def test_a_replay_whose_items_are_refused_keeps_no_other_waiting(
    ledger: Ledger, refusing: Refusing
) -> None:
    ledger.failed()
    order = ReplayOrder(which=UNRESOLVED)
    refused, other = [ledger.replays.order(order, now=ledger.now) for _ in range(2)]

    with refusing("ReplayItem", "INSERT", f"NEW.replay_id = {refused.id}"):
        with pytest.raises(LedgerRefused, match=SAYS):
            ledger.advanced()
        assert ledger.advanced().replay.id == other.id
    ledger.clock.advance(MINUTE)

    assert ledger.advanced().replay.id == refused.id


def test_of_the_failures_of_a_replay_the_one_that_is_refused_is_left_out(
    ledger: Ledger, refusing: Refusing
) -> None:
    first, broken, last = (ledger.failed(name) for name in ("first", "broken", "last"))
    ledger.replays.order(ReplayOrder(which=UNRESOLVED), now=ledger.now)
    begun: list[int] = []
    refusals: list[str] = []

    with refusing("SchedulerExecution", "UPDATE", f"NEW.id = {broken.execution_id}"):
        for _ in range(3):
            advance = ledger.advanced()
            begun += [one.id for one in advance.executions]
            refusals += filter(None, [advance.replay.reason])
            ledger.clock.advance(SECOND)

    assert begun == [first.execution_id, last.execution_id]
    assert (advance.replay.progress.refused, advance.replay.progress.waiting) == (1, 0)
    assert SAYS in refusals[0]


def test_a_failure_that_is_refused_takes_no_other_replay_with_it(
    ledger: Ledger, refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, innocent = ledger.failed("broken"), ledger.failed("innocent")
    taken_on, other = (
        ledger.replays.order(
            ReplayOrder(which=FailureFilter(schedule=one.schedule_name)), now=ledger.now
        )
        for one in (broken, innocent)
    )
    steps: list[str] = []
    write = Database.write

    def stopped_before_the_third_step(
        database: Database, doing: str
    ) -> AbstractContextManager[Connection]:
        if doing == "going on with a replay":
            steps.append(doing)
            if len(steps) == 3:
                ledger.replays.halt(taken_on.id, reason="by a person", now=ledger.now)
        return write(database, doing)

    monkeypatch.setattr(Database, "write", stopped_before_the_third_step)
    with refusing("SchedulerExecution", "UPDATE", f"NEW.id = {broken.execution_id}"):
        met = ledger.advanced_or_not()
        advance = ledger.advanced()

    stopped = ledger.replays.replay(taken_on.id)
    assert stopped is not None
    assert (met, stopped.reason, stopped.progress.refused) == (None, "by a person", 0)
    assert advance.replay.id == other.id
    assert [one.id for one in advance.executions] == [innocent.execution_id]

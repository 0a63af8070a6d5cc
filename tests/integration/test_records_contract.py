"""What every ledger promises to those who look at it, and ask things of it."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import attrs
import pytest

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import (
    EVERY_FAILURE,
    Archived,
    Failure,
    FailureFilter,
    Unproven,
)
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.messages import AttemptRef, FailedMessage
from cronhare.domain.retries.limits import ACTIVATED
from cronhare.domain.retries.outcome import ErrorClass, TaskError
from cronhare.domain.retries.retry import Complete, Fail, Quarantine
from cronhare.domain.schedules.keys import manual_key
from cronhare.domain.schedules.schedule import Misfire, MisfirePolicy, OverlapPolicy
from cronhare.domain.schedules.task import ClassRetention, TaskRef
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.attempts import Refused
from cronhare.ports.inspection import LastClaim
from cronhare.ports.records import ExecutionFilter, QueueLoad, Retention
from cronhare.ports.runner import Captured
from tests.integration.ledgers import (
    CRASH,
    DAY,
    EVERY_MINUTE,
    FOR_GOOD,
    IN_30_S,
    MICROSECOND,
    MINUTE,
    NOON,
    SECOND,
    SUCCESS,
    Ledger,
    at_once,
    draft,
)

# Looking


def test_executions_are_listed_by_schedule_state_and_time_a_page_at_a_time(
    ledger: Ledger,
) -> None:
    done = ledger.succeeded(ledger.claimed("done"))
    failed = ledger.finished(ledger.claimed("failed"), FOR_GOOD)
    waiting = ledger.claimed("waiting")

    def listed(**asked: Any) -> list[Execution]:  # noqa: ANN401
        return [*ledger.records.executions(ExecutionFilter(**asked))]

    assert listed(limit=2) == [waiting, failed]
    assert listed(before=failed.id) == [done]
    assert listed(schedule="done") == [done]
    assert listed(states={State.SUCCEEDED, State.FAILED}) == [failed, done]
    assert listed(schedule="done", states={State.CLAIMED}) == []
    assert listed(schedule="unknown") == listed(schedule="done ") == []
    assert listed(since=failed.executed_at) == [waiting, failed]
    assert listed(since=failed.executed_at + MICROSECOND) == [waiting]
    assert listed(until=failed.executed_at) == [done]


def test_executions_are_listed_by_the_name_of_their_task_or_its_number(ledger: Ledger) -> None:
    of_file = draft("named", task=TaskRef("worker", 7), task_name="back-up", schedule="* * * * *")
    ledger.schedules.save([of_file], source="jobs.toml", now=ledger.now)
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    [named] = ledger.claim_due().claimed
    ledger.disable("named")
    other = ledger.claimed("other", task=TaskRef("worker", 8))

    def of_task(task: str) -> list[int]:
        return [one.id for one in ledger.records.executions(ExecutionFilter(task=task))]

    assert of_task("back-up") == of_task("worker 7") == [named.id]
    assert of_task("worker 8") == [other.id]
    assert of_task("worker") == of_task("report 7") == []


def test_executions_without_a_name_are_listed_by_the_numbers_of_their_task(ledger: Ledger) -> None:
    number, other = TaskRef("report", 25), TaskRef("report", 26)
    of_files = [
        draft("ours", task_name="tokens", task=number, **EVERY_MINUTE),
        draft("theirs", task_name="mails", task=number, **EVERY_MINUTE),
    ]
    ledger.schedules.save(of_files, source="jobs.toml", now=ledger.now)
    ledger.save(draft("by-hand", task=number), draft("another", task=other))
    ledger.plan_edited()
    for _ in range(2):
        ledger.clock.advance(MINUTE)
        runs = {run.schedule_name: run for run in ledger.claim_due().claimed}
    ledger.succeeded(runs["by-hand"])

    def listed(**asked: Any) -> list[str]:  # noqa: ANN401
        which = ExecutionFilter(**{"task": "tokens", "numbers": [number], **asked})
        found = ledger.records.executions(which)
        assert [one.id for one in found] == sorted((one.id for one in found), reverse=True)
        return sorted(one.schedule_name for one in found)

    assert listed() == ["by-hand", "by-hand", "ours", "ours"]
    assert listed(since=ledger.now) == ["by-hand", "ours"]
    assert listed(states=[State.SUCCEEDED]) == ["by-hand"]
    assert listed(states=[State.CLAIMED], schedule="by-hand") == ["by-hand"]
    assert listed(states=[State.CLAIMED]) == ["by-hand", "ours", "ours"]
    assert len(listed(limit=3)) == 3
    assert listed(numbers=()) == ["ours", "ours"]
    assert listed(numbers=(number, other)) == ["another"] * 2 + ["by-hand"] * 2 + ["ours"] * 2
    assert listed(task="report 25", numbers=()) == sorted(["by-hand", "ours", "theirs"] * 2)


@pytest.mark.parametrize("number", [4_711, -1, 10**30])
def test_an_unknown_execution_is_none(ledger: Ledger, number: int) -> None:
    assert ledger.records.execution(number) is None
    assert list(ledger.records.attempts(number)) == []
    assert list(ledger.records.output(number)) == []
    assert ledger.records.cancel(number, now=ledger.now) is None


def test_the_last_run_of_a_schedule_is_the_newest_that_was_not_skipped(ledger: Ledger) -> None:
    first = ledger.succeeded(ledger.claimed("twice"))
    second = ledger.finished(ledger.claimed("twice"), FOR_GOOD)
    third = ledger.claimed("skips", overlap=OverlapPolicy.SKIP, **EVERY_MINUTE)
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    ledger.records.cancel(third.id, now=ledger.now - MINUTE)

    last = ledger.records.last_runs({first.scheduler_id, third.scheduler_id, 4_711})

    assert last == {first.scheduler_id: second, third.scheduler_id: ledger.seen(third)}
    assert ledger.executions(State.SKIPPED), "there was something to pass over"
    waits = ledger.claimed("twice")  # what has not ended is newer than what has
    ledger.succeeded(ledger.claimed("twice"))
    assert ledger.records.last_runs([waits.scheduler_id]) == {waits.scheduler_id: waits}


def test_what_has_not_ended_is_counted_by_queue_and_state(ledger: Ledger) -> None:
    ledger.succeeded(ledger.claimed("done", queue="reports"))
    first = ledger.published("first", queue="reports")
    ledger.published("second", queue="reports")
    retried = ledger.finished(ledger.claimed("retried"), IN_30_S)

    counted = sorted(ledger.records.queues(), key=lambda load: load.queue)

    assert counted == [
        QueueLoad(
            queue=MAIN_QUEUE, state=State.RETRYING, executions=1, oldest_due_at=retried.due_at
        ),
        QueueLoad(queue="reports", state=State.PUBLISHED, executions=2, oldest_due_at=first.due_at),
    ]


# Explaining


def test_the_newest_claim_is_one_of_what_was_due_by_itself(ledger: Ledger) -> None:
    before = ledger.records.last_claim()
    execution = ledger.claimed(**EVERY_MINUTE)
    ledger.clock.advance(SECOND)
    ledger.run_now(execution.scheduler_id, "manual-1", node="person")

    after = ledger.records.last_claim()

    assert before is None
    assert after == LastClaim(execution.executed_at, "ant")


# The archive


def test_resolved_rows_are_listed_only_where_they_are_asked_for(ledger: Ledger) -> None:
    first, second = ledger.failed("first"), ledger.failed("second")
    ledger.records.discard([first.id], note="known", now=ledger.now)

    assert [row.id for row in ledger.records.archive()] == [second.id]
    assert [row.id for row in ledger.records.archive(EVERY_FAILURE)] == [second.id, first.id]
    assert [row.id for row in ledger.records.archived([first.id, 4_711])] == [first.id]
    assert list(ledger.records.archived([])) == []


def test_a_filter_takes_the_rows_of_which_all_is_true_that_it_says(ledger: Ledger) -> None:
    began = ledger.now
    timeout = ledger.failed("mails", queue="cron_scheduler.mails")
    forged = TaskError(message='no "error_class":"transient" here, nor "code":"ETIMEDOUT"')
    denied = ledger.failed(
        "report",
        task=TaskRef("worker", 4),
        error=attrs.evolve(forged, error_class=ErrorClass.PERMANENT, code='"A\\ü"'),
        verdict=Fail("100%_Denied: Größe"),
    )
    pill = ledger.failed("report-2", verdict=Quarantine("crashed 3 times"))
    rows = {timeout.id: "timeout", denied.id: "denied", pill.id: "pill"}
    ledger.records.discard([pill.id], note="known", now=ledger.now)

    asked: list[tuple[dict[str, Any], str]] = [
        ({}, "denied timeout"),
        ({"unresolved": False}, "pill denied timeout"),
        ({"execution_id": denied.execution_id}, "denied"),
        ({"execution_id": 999_999}, ""),
        ({"schedule": "mails"}, "timeout"),
        ({"schedule": "Mails"}, ""),
        ({"schedule": "mails "}, ""),
        ({"task": "worker 4"}, "denied"),
        ({"task": "worker"}, ""),
        ({"task": "pay", "numbers": (TaskRef("worker", 4), TaskRef("worker", 5))}, "denied"),
        ({"type": "report"}, "timeout"),
        ({"queue": "cron_scheduler.mails"}, "timeout"),
        ({"queue": "cron_scheduler.mails "}, ""),
        ({"reason": "%_D"}, "denied"),
        ({"reason": "denied"}, ""),
        ({"reason": "Grö"}, "denied"),
        ({"error_class": ErrorClass.TRANSIENT}, ""),
        ({"error_class": ErrorClass.UNKNOWN}, "timeout"),
        ({"error_class": ErrorClass.PERMANENT, "type": "worker"}, "denied"),
        ({"code": "ETIMEDOUT"}, "timeout"),
        ({"code": '"A\\ü"'}, "denied"),
        ({"kind": State.QUARANTINED}, ""),
        ({"kind": State.QUARANTINED, "unresolved": False}, "pill"),
        ({"kind": State.FAILED, "unresolved": False}, "denied timeout"),
        ({"since": denied.failed_at}, "denied"),
        ({"until": denied.failed_at, "since": began}, "timeout"),
    ]
    for fields, expected in asked:
        which = FailureFilter(**fields)
        found = [rows[row.id] for row in ledger.records.archive(which)]
        assert " ".join(found) == expected, fields
        assert ledger.records.count_failures(which) == len(found), fields


def test_a_reason_is_found_in_the_error_too_where_an_open_breaker_hides_it(ledger: Ledger) -> None:
    said = 'ECONNREFUSED: no "pool"\nGröße'
    error = TaskError(message=said, code="EPOOL", stack="at line 1: a stack")
    row = ledger.failed(error=error, verdict=Fail(ACTIVATED))

    def found(reason: str) -> bool:
        found = ledger.records.archive(FailureFilter(reason=reason))
        return [one.id for one in found] == [row.id]

    for part in ("ECONNREFUSED", '"pool"\nGrö', "Circuit breaker", said):
        assert found(part), part
    for part in ("econnrefused", "EPOOL", "stack", "message", "code", "%", '","code":', "unknown"):
        assert not found(part), part


def test_the_archive_is_paged_by_the_last_row_of_the_page_before(ledger: Ledger) -> None:
    rows = [ledger.failed(f"job-{n}") for n in range(3)]

    first = ledger.records.archive(limit=2)
    second = ledger.records.archive(before=first[-1].id, limit=2)

    assert [*first, *second] == rows[::-1]


# Failures that a message reports


def reported(
    scheduler_id: int,
    *,
    ticket: AttemptRef | None = None,
    failed_at: datetime | None = None,
    proven: bool = False,
) -> Failure:
    """Report a failure, as the message of somebody else's worker does."""
    message = FailedMessage(
        type="report",
        id=7,
        scheduler_id=scheduler_id,
        params_scheduler='{"theirs":1}',
        failed_at="unread",
        failed_reason="Connection timeout",
        retry_count=3,
    )
    key = manual_key(UUID(int=scheduler_id))
    return Failure(message=message, failed_at=failed_at, key=key, ticket=ticket, proven=proven)


def keep(ledger: Ledger, failure: Failure, *, node: str = "ant") -> Archived | None:
    kept = ledger.records.keep_failure(failure, now=ledger.now, node=node)
    assert not isinstance(kept, Unproven)
    return kept


def test_a_foreign_failure_is_archived_once_with_an_execution_of_its_own_and_replayed(
    ledger: Ledger,
) -> None:
    scheduler_id = ledger.add()
    failure = reported(scheduler_id, failed_at=NOON - DAY)

    kept = keep(ledger, failure)

    (execution,) = ledger.executions()
    (row,) = ledger.records.archive()
    assert row == kept
    assert (row.execution_id, row.scheduler_id) == (execution.id, scheduler_id)
    assert (row.schedule_name, row.execution_key, row.kind) == ("report", failure.key, "failed")
    assert (row.task_type, row.task_id, row.params) == ("report", 7, '{"theirs":1}')
    assert (row.failed_at, row.failed_reason) == (NOON - DAY, "Connection timeout")
    assert (row.attempts, row.retry_count) == (4, 3)
    assert (execution.state, execution.finished_at) == (State.FAILED, ledger.now)
    assert execution.last_error == "Connection timeout"
    ledger.clock.advance(DAY)
    assert not ledger.overdue()
    assert not ledger.claims.unfinished(after=0, limit=9)
    (replayed,) = ledger.records.replay([row.id], now=ledger.now)
    assert keep(ledger, failure, node="bee") is None
    assert len(ledger.records.archive(EVERY_FAILURE)) == len(ledger.executions()) == 1
    assert (replayed.id, replayed.attempt, replayed.deaths) == (row.execution_id, 5, 0)
    assert ledger.succeeded(replayed).state is State.SUCCEEDED


@pytest.mark.parametrize("known", [True, False])
def test_of_many_who_report_a_failure_one_is_heard(ledger: Ledger, known: bool) -> None:
    """Again and again: the connections have to be there for them to meet."""
    scheduler_id = ledger.add() if known else 4_711
    failures = [
        attrs.evolve(reported(scheduler_id), key=manual_key(UUID(int=number)))
        for number in range(5)
    ]

    def heard(failure: Failure) -> int:
        answers = at_once(8, lambda n: keep(ledger, failure, node=f"node-{n}"))
        return sum(answer is not None for answer in answers)

    assert [heard(failure) for failure in failures] == [1] * 5
    assert len(ledger.records.archive()) == 5


def test_a_failure_of_an_unknown_schedule_stands_alone_and_is_not_replayed(ledger: Ledger) -> None:
    kept = keep(ledger, reported(4_711))
    assert kept is not None

    replayed = ledger.records.replay([kept.id], now=ledger.now)

    assert (kept.execution_id, kept.schedule_name) == (0, "#4711")
    assert (list(replayed), ledger.executions()) == ([], [])
    assert list(ledger.records.archive()) == [kept]
    assert keep(ledger, reported(4_711)) is None
    assert ledger.records.discard([kept.id], note="", now=ledger.now) == 1


@pytest.mark.parametrize("state", [State.CLAIMED, State.PUBLISHED, State.RETRYING])
def test_an_attempt_of_ours_that_a_foreign_worker_failed_ends_there_if_that_is_proven(
    ledger: Ledger, state: State
) -> None:
    execution = waiting(ledger, state)
    ticket = AttemptRef(execution_id=execution.id, attempt=execution.attempt)

    kept = keep(ledger, reported(execution.scheduler_id, ticket=ticket, proven=True))

    seen = ledger.seen(execution)
    assert kept is not None
    assert (kept.execution_id, kept.execution_key) == (execution.id, execution.key)
    assert (kept.attempts, kept.retry_count) == (execution.attempt, 3)
    assert (kept.task_id, kept.params) == (execution.task.id, execution.params)
    assert (seen.state, seen.last_error) == (State.FAILED, "Connection timeout")
    assert isinstance(ledger.start(execution), Refused)
    assert keep(ledger, reported(execution.scheduler_id, ticket=ticket)) is None


@pytest.mark.parametrize("replayed", [False, True])
def test_a_failure_of_our_own_is_archived_already(ledger: Ledger, *, replayed: bool) -> None:
    archived = ledger.failed()
    if replayed:
        ledger.records.replay([archived.id], now=ledger.now)
    ticket = AttemptRef(execution_id=archived.execution_id, attempt=archived.attempts)

    assert keep(ledger, reported(archived.scheduler_id, ticket=ticket)) is None
    assert len(ledger.records.archive(EVERY_FAILURE)) == 1


def forget_execution_of(archived: Archived, ledger: Ledger) -> None:
    """Resolve a row of the archive, and wait until nothing else speaks of it."""
    ledger.records.discard([archived.id], note="", now=ledger.now)
    ledger.clock.advance(DAY * 400)
    ledger.records.clean_up(now=ledger.now, retention=Retention())
    assert ledger.executions() == []


def test_a_foreign_failure_stays_archived_once_when_its_execution_is_forgotten(
    ledger: Ledger,
) -> None:
    failure = reported(ledger.add())
    kept = keep(ledger, failure)
    assert kept is not None
    forget_execution_of(kept, ledger)

    assert keep(ledger, failure) is None
    assert [row.id for row in ledger.records.archive(EVERY_FAILURE)] == [kept.id]
    assert ledger.executions() == []


# Running by hand


def test_what_its_caller_publishes_is_left_to_him_for_a_head_start(ledger: Ledger) -> None:
    archived, now, head_start = ledger.failed(), ledger.now, 3 * SECOND

    other, key = ledger.add("other"), "manual-1"
    run = ledger.records.run_now(
        other, key=key, params=None, now=now, node="shell", head_start=head_start
    )
    [replayed] = ledger.records.replay([archived.id], now=now, head_start=head_start)

    ledger.clock.advance(3 * SECOND - MICROSECOND)
    assert ledger.overdue() == []
    ledger.clock.advance(MICROSECOND)
    assert sorted(ledger.overdue()) == sorted([run.id, replayed.id])


def test_a_run_by_hand_has_params_of_its_own_and_changes_nothing_of_its_schedule(
    ledger: Ledger,
) -> None:
    scheduler_id, off = ledger.add(params='{"v":1}'), ledger.add("off", status=False)
    (stored, _) = ledger.schedules.schedules()

    execution, other = (
        ledger.run_now(id_, "manual-1", params='{"v":2}', node="shell")
        for id_ in (scheduler_id, off)
    )

    assert execution.params == '{"v":2}'
    assert ledger.schedules.schedules()[0] == stored
    assert ledger.claims.next_due() == NOON + MINUTE
    assert ledger.succeeded(other).state is State.SUCCEEDED


@pytest.mark.parametrize("number", [4_711, -1, 10**30])
def test_a_schedule_that_is_not_there_is_not_run_by_hand(ledger: Ledger, number: int) -> None:
    with pytest.raises(NotToBeRun, match=f"there is no schedule with the id {number}"):
        ledger.run_now(number, "manual-1", node="shell")

    assert ledger.executions() == []


def test_a_manual_run_that_is_asked_for_again_is_the_one_that_is_there(ledger: Ledger) -> None:
    scheduler_id = ledger.add()

    answers = at_once(8, lambda n: ledger.run_now(scheduler_id, "manual-1", node=f"node-{n}"))

    assert len({answer.id for answer in answers}) == 1
    assert len(ledger.executions()) == 1


def waiting(ledger: Ledger, state: State) -> Execution:
    if state is State.PUBLISHED:
        return ledger.published()
    execution = ledger.claimed()
    return ledger.finished(execution, IN_30_S) if state is State.RETRYING else execution


# Replaying


def test_a_replayed_execution_is_claimed_anew_with_a_fresh_allowance(ledger: Ledger) -> None:
    crashed = ledger.finished(ledger.claimed(), IN_30_S, CRASH)
    failed = ledger.finished(crashed, Quarantine("crashed 3 times within 300 s"), CRASH)
    (archived,) = ledger.records.archive()

    (replayed,) = ledger.records.replay([archived.id], now=ledger.now)

    assert (replayed.id, replayed.key, replayed.params) == (failed.id, failed.key, failed.params)
    assert (replayed.state, replayed.attempt) == (State.CLAIMED, 3)
    assert (replayed.deaths, replayed.crashed_at) == (0, ())
    assert (replayed.finished_at, replayed.last_error) == (None, None)
    assert (ledger.seen(replayed), ledger.overdue()) == (replayed, [failed.id])
    ledger.clock.advance(SECOND)
    seen = ledger.finished(replayed, IN_30_S, CRASH)
    assert (seen.attempt, seen.deaths, seen.crashed_at) == (4, 1, (ledger.now,))
    assert [attempt.attempt for attempt in ledger.records.attempts(seen.id)] == [1, 2, 3]


def test_a_row_is_replayed_once_and_stays_resolved(ledger: Ledger) -> None:
    archived = ledger.failed()
    (replayed,) = ledger.records.replay([archived.id, archived.id, 4_711], now=ledger.now)

    again = ledger.records.replay([archived.id], now=ledger.now)

    assert (list(again), ledger.seen(replayed)) == ([], replayed)
    (row,) = ledger.records.archived([archived.id])
    assert (row.resolution, row.resolved_at) == ("replayed", ledger.now)


def test_of_many_who_replay_a_row_one_does(ledger: Ledger) -> None:
    archived = ledger.failed()

    answers = at_once(8, lambda _: ledger.records.replay([archived.id], now=ledger.now))

    assert sorted(map(len, answers)) == [0, 0, 0, 0, 0, 0, 0, 1]


# Discarding


def test_a_discarded_row_is_resolved_with_a_note(ledger: Ledger) -> None:
    archived = ledger.failed()

    count = ledger.records.discard([archived.id, 4_711], note="known", now=ledger.now)

    (row,) = ledger.records.archived([archived.id])
    assert (count, row.resolution, row.note) == (1, "discarded", "known")
    assert row.resolved_at == ledger.now
    assert list(ledger.records.replay([archived.id], now=ledger.now)) == []
    assert ledger.records.discard([archived.id], note="again", now=ledger.now) == 0


# Cleaning up

RETENTION = Retention(completed=1 * DAY, failed=2 * DAY, others=3 * DAY)


def ended(ledger: Ledger, state: State) -> Execution:
    if state is State.SKIPPED:
        ledger.add(misfire=Misfire(policy=MisfirePolicy.SKIP))
        ledger.clock.advance(3 * MINUTE)
        ledger.claim_due()
        ledger.disable("report")
        ledger.plan_edited()
        return ledger.executions(State.SKIPPED)[0]
    execution = ledger.claimed()
    if state is State.CANCELLED:
        ledger.records.cancel(execution.id, now=ledger.now)
        return ledger.seen(execution)
    ran = attrs.evolve(SUCCESS, stdout=Captured(head="hello", bytes=5))
    return ledger.finished(execution, Complete() if state is State.SUCCEEDED else FOR_GOOD, ran)


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        (State.SUCCEEDED, RETENTION.completed),
        (State.FAILED, RETENTION.failed),
        (State.CANCELLED, RETENTION.others),
        (State.SKIPPED, RETENTION.others),
    ],
)
def test_what_has_ended_is_kept_for_the_retention_of_its_state(
    ledger: Ledger, state: State, kept: timedelta
) -> None:
    execution = ended(ledger, state)
    resolve_all(ledger)
    ledger.clock.advance(kept)
    ledger.records.clean_up(now=ledger.now, retention=RETENTION)
    before = ledger.records.execution(execution.id)

    ledger.clock.advance(MICROSECOND)
    ledger.records.clean_up(now=ledger.now, retention=RETENTION)

    assert (before, ledger.records.execution(execution.id)) == (execution, None)
    assert not ledger.records.attempts(execution.id)
    assert not ledger.records.output(execution.id)


def resolve_all(ledger: Ledger) -> None:
    ids = [row.id for row in ledger.records.archive()]
    ledger.records.discard(ids, note="seen", now=ledger.now)


def test_of_each_schedule_the_newest_successes_are_kept(ledger: Ledger) -> None:
    def succeed(scheduler_id: int, key: str) -> Execution:
        return ledger.succeeded(ledger.run_now(scheduler_id, key))

    busy, quiet = ledger.add("busy", status=False), ledger.add("quiet", status=False)
    oldest, *newest = [succeed(busy, f"manual-{n}") for n in range(3)]
    only = succeed(quiet, "manual-9")

    count = ledger.records.clean_up(now=ledger.now, retention=Retention(completed_rows=2))

    assert (count, ledger.records.execution(oldest.id)) == (1, None)
    assert ledger.executions() == [*newest, only]


def test_of_each_class_the_newest_runs_are_kept_and_what_awaits_a_person(ledger: Ledger) -> None:
    emails = ClassRetention(class_="emails", done=2, failed=1)
    unlimited = attrs.evolve(emails, class_="webhooks", done=None, failed=0)
    first, second = (ledger.add(name, status=False, retention=emails) for name in "ab")
    other = ledger.add("c", status=False, retention=unlimited)
    begin = ledger.run_now
    done = [
        ledger.succeeded(begin(id_, f"manual-{n}")) for n in range(3) for id_ in (first, second)
    ]
    others = [ledger.succeeded(begin(other, f"manual-{n}")) for n in range(3)]
    failed = [ledger.finished(begin(first, f"manual-f{n}"), FOR_GOOD) for n in range(4)]
    seen = {failed[0].id, failed[2].id}
    rows = [row.id for row in ledger.records.archive() if row.execution_id in seen]
    ledger.records.discard(rows, note="seen", now=ledger.now)

    young = ledger.records.clean_up(now=ledger.now, retention=Retention())
    ledger.clock.advance(timedelta(hours=1, seconds=1))
    count = ledger.records.clean_up(now=ledger.now, retention=Retention())

    assert (young, count) == (0, 6)
    assert ledger.executions() == [*done[-2:], *others, failed[1], failed[3]]


def test_a_run_at_boot_is_known_for_a_day_however_many_follow_it(ledger: Ledger) -> None:
    scheduler_id = ledger.add("busy", status=False)
    runs = [ledger.run_now(scheduler_id, key) for key in ("boot-a", *"bcd")]
    at_boot, oldest, *newest = map(ledger.succeeded, runs)
    ledger.clock.advance(DAY)

    ledger.records.clean_up(now=ledger.now, retention=Retention(completed_rows=2))
    kept = ledger.executions()
    ledger.clock.advance(timedelta(seconds=1))
    ledger.records.clean_up(now=ledger.now, retention=Retention(completed_rows=2))

    assert kept == [at_boot, *newest]
    assert oldest not in kept
    assert ledger.executions() == newest


def test_what_has_not_ended_is_never_cleaned_up(ledger: Ledger) -> None:
    kept = [
        ledger.claimed("claimed"),
        ledger.published("published"),
        ledger.running("running"),
        ledger.finished(ledger.claimed("retrying"), IN_30_S),
    ]
    ledger.clock.advance(400 * DAY)

    count = ledger.records.clean_up(now=ledger.now, retention=Retention())

    assert (count, ledger.executions()) == (0, kept)


def test_the_archive_is_never_cleaned_up(ledger: Ledger) -> None:
    archived = ledger.failed()
    resolve_all(ledger)
    ledger.clock.advance(400 * DAY)

    count = ledger.records.clean_up(now=ledger.now, retention=Retention())

    assert count == 1
    assert [row.id for row in ledger.records.archive(EVERY_FAILURE)] == [archived.id]

"""What every attempt store promises."""

import json
from datetime import timedelta

import attrs
import msgspec
import pytest

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE
from cronhare.domain.messages import TaskMessage
from cronhare.domain.retries.outcome import Crash, Ending
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.retries.retry import (
    Cancel,
    Complete,
    GiveBack,
    Quarantine,
    Verdict,
)
from cronhare.domain.schedules.schedule import ScheduleOwner
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.attempts import (
    Busy,
    Finish,
    Recorded,
    Refused,
    StartRequest,
    Superseded,
)
from cronhare.ports.runner import AttemptResult, Captured, TaskReport, Written
from tests.integration.ledgers import (
    CRASH,
    EVERY_MINUTE,
    FAILURE,
    FOR_GOOD,
    IN_30_S,
    LEASE,
    LOSS,
    MINUTE,
    SECOND,
    SUCCESS,
    TIMEOUT,
    Ledger,
    at_once,
)

IN_QUARANTINE = Quarantine("crashed 3 times within 300 s")
BACK = GiveBack("interrupted: the worker shuts down, which costs no attempt")

VERDICTS: list[tuple[Verdict, State]] = [
    (Complete(), State.SUCCEEDED),
    (IN_30_S, State.RETRYING),
    (BACK, State.RETRYING),
    (FOR_GOOD, State.FAILED),
    (IN_QUARANTINE, State.QUARANTINED),
    (Cancel(), State.CANCELLED),
]


# The start fence


def test_the_winner_runs_and_owns_its_attempt_until_its_lease_ends(ledger: Ledger) -> None:
    execution = ledger.claimed()

    started = ledger.started(execution, node="ant")

    assert (started.state, started.owner, started.attempt) == (State.RUNNING, "ant", 1)
    assert (started.started_at, started.lease_until) == (ledger.now, ledger.now + LEASE)
    assert ledger.seen(execution) == started
    (attempt,) = ledger.records.attempts(execution.id)
    assert (attempt.execution_id, attempt.attempt, attempt.node) == (execution.id, 1, "ant")
    assert (attempt.started_at, attempt.finished_at, attempt.ending) == (ledger.now, None, None)


def test_whoever_starts_an_attempt_is_told_whose_its_schedule_is(ledger: Ledger) -> None:
    nobodys = ledger.claimed("nobodys")
    somebodys = ledger.claimed("somebodys", user_id=7, language_id=0)

    assert ledger.started(nobodys).owned_by == ScheduleOwner()
    assert ledger.started(somebodys).owned_by == ScheduleOwner(user_id=7, language_id=0)


def test_a_later_attempt_has_a_larger_fencing_token_after_a_replay_too(ledger: Ledger) -> None:
    archived = ledger.failed()
    first = ledger.records.execution(archived.execution_id)
    other = ledger.claimed("other")

    [replayed] = ledger.records.replay([archived.id], now=ledger.now)

    assert first is not None
    assert first.fence < ledger.started(replayed).fence < other.fence


def test_of_sixteen_nodes_that_wish_to_start_an_attempt_one_does(ledger: Ledger) -> None:
    execution = ledger.claimed()

    answers = at_once(16, lambda n: ledger.start(execution, node=f"node-{n}"))

    (winner,) = [answer for answer in answers if isinstance(answer, Execution)]
    assert ledger.seen(execution).owner == winner.owner
    assert len(ledger.records.attempts(execution.id)) == 1


def test_a_repeated_start_beside_a_fresh_one_leaves_each_its_own(ledger: Ledger) -> None:
    held, fresh = ledger.running("held", node="ant"), ledger.claimed("fresh")

    answers = ledger.start_all([held, fresh])

    assert answers == [ledger.seen(held), ledger.seen(fresh)]
    assert [ledger.seen(one).lease_until for one in (held, fresh)] == [ledger.now + LEASE] * 2
    assert len(ledger.records.attempts(held.id)) == len(ledger.records.attempts(fresh.id)) == 1


def test_a_wish_that_is_said_twice_at_once_starts_one_attempt(ledger: Ledger) -> None:
    execution = ledger.claimed()

    first, again = ledger.start_all([execution, execution])

    assert isinstance(first, Execution)
    assert again == first
    assert len(ledger.records.attempts(execution.id)) == 1


def test_the_system_starts_its_own_and_no_message_does(ledger: Ledger) -> None:
    cleanup = ledger.systems_own()

    assert isinstance(ledger.start(cleanup), Refused)
    assert ledger.seen(cleanup) == cleanup
    request = StartRequest(execution_id=cleanup.id, attempt=1, nacks=None)
    [own] = ledger.attempts.start([request], now=ledger.now, node="ant", lease=LEASE)
    assert isinstance(own, Execution)


def test_the_answers_come_in_the_order_of_the_requests(ledger: Ledger) -> None:
    first, second = ledger.claimed("first"), ledger.claimed("second")
    unknown = msgspec.structs.replace(first, id=4_711)

    answers = ledger.start_all([second, unknown, first])

    assert [getattr(answer, "id", None) for answer in answers] == [second.id, None, first.id]


# Finishing


def test_a_success_ends_an_execution(ledger: Ledger) -> None:
    execution = ledger.running()
    ledger.clock.advance(SECOND)

    ledger.finish(execution, Complete(), SUCCESS)

    seen = ledger.seen(execution)
    assert (seen.finished_at, seen.owner, seen.lease_until) == (ledger.now, None, None)
    assert (seen.attempt, seen.deaths, seen.last_error) == (1, 0, None)


def test_a_retry_is_a_death_and_waits_for_its_delay(ledger: Ledger) -> None:
    execution = ledger.running()

    ledger.finish(execution, IN_30_S)

    seen = ledger.seen(execution)
    assert (seen.attempt, seen.deaths) == (2, 1)
    assert seen.next_attempt_at == ledger.now + 30 * SECOND
    assert (seen.owner, seen.lease_until, seen.finished_at) == (None, None, None)
    assert "the server did not answer" in (seen.last_error or "")


def test_what_may_count_as_a_crash_is_remembered_with_its_time_and_node(ledger: Ledger) -> None:
    execution = ledger.claimed()
    for ran in (CRASH, FAILURE, LOSS, TIMEOUT):
        execution = ledger.finished(execution, IN_30_S, ran)

    assert execution.crashes == (
        Crash(ledger.now - 90 * SECOND, Ending.CRASHED, "ant"),
        Crash(ledger.now - 30 * SECOND, Ending.LOST, "ant"),
        Crash(ledger.now, Ending.TIMED_OUT, "ant"),
    )


@pytest.mark.parametrize(
    ("verdict", "kind"), [(FOR_GOOD, "failed"), (IN_QUARANTINE, "quarantined")]
)
def test_a_failure_is_archived_with_its_state(ledger: Ledger, verdict: Verdict, kind: str) -> None:
    once = ledger.claimed(
        params='{"v":1}', retry=RetryPolicy(attempts=2), timeout=timedelta(seconds=90)
    )
    once_retried = ledger.finished(once, IN_30_S)

    failed = ledger.finished(once_retried, verdict)

    (archived,) = ledger.records.archive()
    assert (archived.kind, archived.execution_id) == (kind, failed.id)
    assert (archived.execution_key, archived.scheduler_id) == (failed.key, failed.scheduler_id)
    assert (archived.schedule_name, archived.params) == ("report", '{"v":1}')
    assert (archived.task_type, archived.task_id, archived.queue) == ("report", 25, failed.queue)
    assert (archived.attempts, archived.retry_count) == (2, 1)
    assert (archived.failed_at, archived.failed_reason) == (ledger.now, verdict.reason)
    assert json.loads(archived.error or "")["code"] == "ETIMEDOUT"
    options = json.loads(archived.options or "")
    assert (options["retry"]["attempts"], options["timeout_seconds"]) == (2, 90.0)
    assert (archived.resolved_at, archived.resolution, archived.note) == (None, None, None)
    assert failed.finished_at == ledger.now


def test_the_result_of_an_attempt_is_kept(ledger: Ledger) -> None:
    execution = ledger.running()
    ledger.clock.advance(SECOND)
    ran = attrs.evolve(FAILURE, pid=4711, peak_memory=12_000_000, cpu_seconds=0.25, left_running=2)

    ledger.finish(execution, IN_30_S, ran)

    (attempt,) = ledger.records.attempts(execution.id)
    assert (attempt.ending, attempt.exit_code, attempt.signal) == ("failed", 1, None)
    assert (attempt.pid, attempt.peak_memory, attempt.cpu_seconds) == (4711, 12_000_000, 0.25)
    assert attempt.left_running == 2
    assert (attempt.started_at, attempt.finished_at) == (ledger.now - SECOND, ledger.now)
    assert json.loads(attempt.error or "")["message"] == "the server did not answer"


@pytest.fixture
def nul(request: pytest.FixtureRequest) -> str:
    """What is kept of a NUL: PostgreSQL takes none, and a sign stands for it."""
    return "\N{SYMBOL FOR NULL}" if "postgresql" in request.node.name else "\x00"


def test_what_an_attempt_wrote_is_kept(ledger: Ledger, nul: str) -> None:
    execution = ledger.running()
    stdout = Captured(head="first\n", tail="last\n", bytes=300_000)
    stderr = Captured(head="ünïcode \x00\n", bytes=11)

    ledger.finish(execution, IN_30_S, attrs.evolve(FAILURE, stdout=stdout, stderr=stderr))

    (output,) = ledger.records.output(execution.id)
    kept = attrs.evolve(stderr, head=stderr.head.replace("\x00", nul))
    assert (output.attempt, output.stdout, output.stderr) == (1, stdout, kept)


@pytest.mark.parametrize(("verdict", "state"), VERDICTS)
def test_a_repeated_finish_is_answered_as_the_first_and_changes_nothing(
    ledger: Ledger, verdict: Verdict, state: State
) -> None:
    execution = ledger.running()
    first = ledger.finish(execution, verdict)
    before, archived = ledger.seen(execution), list(ledger.records.archive())
    ledger.clock.advance(SECOND)

    answer = ledger.finish(execution, verdict)

    assert (first, answer, ledger.seen(execution)) == (state, state, before)
    assert bool(archived) == (state in {State.FAILED, State.QUARANTINED})
    assert list(ledger.records.archive()) == archived


@pytest.mark.parametrize("verdict", [Complete(), FOR_GOOD])
def test_a_requested_cancel_wins_over_every_verdict(ledger: Ledger, verdict: Verdict) -> None:
    execution = ledger.running()
    ledger.records.cancel(execution.id, now=ledger.now)

    answer = ledger.finish(execution, verdict, SUCCESS)

    (attempt,) = ledger.records.attempts(execution.id)
    seen = ledger.seen(execution)
    assert (answer, seen.state, seen.finished_at) == (State.CANCELLED, State.CANCELLED, ledger.now)
    assert (attempt.ending, attempt.exit_code) == ("succeeded", 0)
    assert list(ledger.records.archive(EVERY_FAILURE)) == []


def test_what_is_finished_together_is_kept_apart(ledger: Ledger) -> None:
    ends: list[tuple[AttemptResult, Verdict]] = [
        (SUCCESS, Complete()),
        (SUCCESS, Complete()),
        (FAILURE, IN_30_S),
        (CRASH, FOR_GOOD),
    ]
    running = [ledger.running(f"job-{number}") for number in range(len(ends))]
    finishes = [
        Finish(execution=execution, ran=ran, verdict=verdict)
        for execution, (ran, verdict) in zip(running, ends, strict=True)
    ]

    ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    seen = [ledger.seen(execution) for execution in running]
    assert [(one.state, one.attempt, one.deaths, len(one.crashed_at)) for one in seen] == [
        (State.SUCCEEDED, 1, 0, 0),
        (State.SUCCEEDED, 1, 0, 0),
        (State.RETRYING, 2, 1, 0),
        (State.FAILED, 1, 0, 1),
    ]
    endings = [attempt.ending for one in running for attempt in ledger.records.attempts(one.id)]
    assert endings == ["succeeded", "succeeded", "failed", "crashed"]


def test_a_run_knows_when_the_last_one_was_due_that_succeeded_before_it(ledger: Ledger) -> None:
    ledger.add("other", **EVERY_MINUTE)
    ledger.add(**EVERY_MINUTE)
    runs = list[Execution]()
    for _ in range(4):
        ledger.clock.advance(MINUTE)
        runs += (run for run in ledger.claim_due().claimed if run.schedule_name == "report")
    first, second, third, fourth = runs
    asked = ledger.attempts.previous_success

    none = asked(fourth)
    ledger.succeeded(second)
    ledger.finished(third, FOR_GOOD)
    ledger.clock.advance(MINUTE)
    ledger.succeeded(first)  # it ends last, and was due before

    assert (none, asked(first)) == (None, None)
    assert (asked(second), asked(third)) == (first.due_at, second.due_at)
    assert asked(fourth) == second.due_at


def test_of_many_finishes_of_one_attempt_one_counts(ledger: Ledger) -> None:
    execution = ledger.running()

    at_once(8, lambda _: ledger.finish(execution, FOR_GOOD))

    assert len(ledger.records.archive()) == 1


# Giving up


def give_up(ledger: Ledger, found: Execution, verdict: Verdict = IN_30_S) -> Recorded | Busy:
    finish = Finish(execution=found, ran=LOSS, verdict=verdict)
    (answer,) = ledger.attempts.give_up([finish], now=ledger.now)
    return answer


def test_a_lost_attempt_is_given_up_by_anybody_and_its_end_is_too_late(
    ledger: Ledger,
) -> None:
    execution = ledger.running(node="ant")
    ledger.clock.advance(LEASE)
    (found,) = ledger.claims.lapsed(now=ledger.now, limit=9)

    answer = give_up(ledger, found)

    (attempt,) = ledger.records.attempts(execution.id)
    seen = ledger.seen(execution)
    assert (answer, seen.attempt, seen.deaths) == (State.RETRYING, 2, 1)
    assert (attempt.ending, seen.crashed_at) == ("lost", (ledger.now,))
    assert ledger.finish(execution, Complete(), SUCCESS, node="ant") == Superseded()
    assert ledger.seen(execution) == seen


def test_a_renewal_at_the_very_instant_of_the_first_one_counts_as_well(ledger: Ledger) -> None:
    execution = ledger.running(node="ant")
    (found,) = ledger.claims.run_by(["ant"], limit=9)
    ledger.attempts.renew([execution.id], now=ledger.now, node="ant", lease=LEASE)

    answer = give_up(ledger, found)

    assert (answer, ledger.seen(execution).state) == (Superseded(), State.RUNNING)


# Renewing


def test_a_renewal_tells_what_somebody_wants_cancelled(ledger: Ledger) -> None:
    wanted, other = ledger.claimed("wanted"), ledger.claimed("other")
    for execution in (wanted, other):
        ledger.started(execution, node="ant")
    ledger.records.cancel(wanted.id, now=ledger.now)

    answer = ledger.attempts.renew([wanted.id, other.id], now=ledger.now, node="ant", lease=LEASE)

    assert answer.held == {wanted.id, other.id}
    assert answer.cancel_requested == {wanted.id}


# Adopting


def adopt(
    ledger: Ledger, scheduler_id: int, *, deaths: int = 0, node: str = "ant"
) -> Execution | Refused | Busy:
    message = TaskMessage(
        type="worker", id=7, scheduler_id=scheduler_id, params_scheduler='{"by":"hand"}'
    )
    return ledger.attempts.adopt(
        message,
        key="foreign-1",
        queue="cron_scheduler.reports",
        deaths=deaths,
        now=ledger.now,
        node=node,
    )


def test_a_foreign_message_gets_a_row_that_waits_for_its_first_attempt(ledger: Ledger) -> None:
    scheduler_id = ledger.add(timeout=timedelta(minutes=5))

    adopted = adopt(ledger, scheduler_id, deaths=2)

    assert isinstance(adopted, Execution)
    assert (adopted.state, adopted.attempt, adopted.deaths) == (State.CLAIMED, 1, 2)
    assert (adopted.task, adopted.params) == (TaskRef("worker", 7), '{"by":"hand"}')
    assert (adopted.scheduler_id, adopted.schedule_name) == (scheduler_id, "report")
    assert (adopted.key, adopted.container_id) == ("foreign-1", "ant")
    assert adopted.queue == "cron_scheduler.reports"
    assert (adopted.timeout, ledger.seen(adopted)) == (timedelta(minutes=5), adopted)


def test_one_foreign_message_is_adopted_once_by_many(ledger: Ledger) -> None:
    scheduler_id = ledger.add()

    answers = at_once(8, lambda n: adopt(ledger, scheduler_id, node=f"node-{n}"))

    assert len({answer.id for answer in answers if isinstance(answer, Execution)}) == 1
    assert len(ledger.executions()) == 1


def test_nothing_foreign_runs_in_the_name_of_the_systems_own_schedule(ledger: Ledger) -> None:
    cleanup = ledger.systems_own()

    answer = adopt(ledger, cleanup.scheduler_id)

    assert isinstance(answer, Refused)
    assert "the system's own" in answer.reason
    assert ledger.executions() == []


# What is kept of an attempt that runs


def wrote(execution: Execution, text: str) -> Written:
    return Written(
        execution_id=execution.id,
        attempt=execution.attempt,
        stdout=Captured(head=text, bytes=len(text)),
    )


def test_of_a_lost_attempt_stays_what_was_kept_while_it_ran(ledger: Ledger) -> None:
    execution = ledger.running()
    ledger.attempts.keep_written([wrote(execution, "so far")], now=ledger.now, node="ant")

    give_up(ledger, ledger.seen(execution))

    [output] = ledger.records.output(execution.id)
    assert (output.stdout.head, output.as_of) == ("so far", ledger.now)


def test_what_a_task_reports_is_kept_while_it_runs_and_with_its_end(ledger: Ledger) -> None:
    execution, silent = ledger.running(), ledger.running("silent")
    half = TaskReport(progress=0.5, progress_text="half of it")
    whole = TaskReport(progress=1.0, result='{"rows":["\\u0000"]}', result_problem="too large")
    written = Written(execution_id=execution.id, attempt=1, report=half)
    lines = Captured(head="a\n", bytes=2, lines=1)

    ledger.attempts.keep_written([written], now=ledger.now, node="ant")
    [running] = ledger.records.reported([execution.id, silent.id])
    ledger.finish(execution, Complete(), attrs.evolve(SUCCESS, report=whole, stdout=lines))
    [ended] = ledger.records.reported([execution.id, silent.id])

    assert (running.execution_id, running.attempt) == (execution.id, 1)
    assert (running.report, running.bytes, running.as_of) == (half, 0, ledger.now)
    assert (ended.report, ended.bytes, ended.as_of) == (whole, 2, None)
    [output] = ledger.records.output(execution.id)
    assert output.stdout.lines == 1


def test_of_what_another_node_owns_has_ended_or_is_unknown_nothing_is_kept(
    ledger: Ledger,
) -> None:
    running = ledger.running("running")
    ended = ledger.running("ended")
    ledger.finish(ended, Complete(), attrs.evolve(SUCCESS, stdout=Captured(head="all", bytes=3)))
    strange = [wrote(ended, "late"), attrs.evolve(wrote(running, "unknown"), execution_id=999_999)]
    later = attrs.evolve(wrote(running, "later"), attempt=2)

    ledger.attempts.keep_written([*strange, later], now=ledger.now, node="ant")
    ledger.attempts.keep_written([wrote(running, "bee's")], now=ledger.now, node="bee")

    assert not ledger.records.output(running.id)
    assert [one.stdout.head for one in ledger.records.output(ended.id)] == ["all"]

"""Each field of each view, of values of which no two are alike."""

from datetime import timedelta
from typing import Any

import attrs
import msgspec
import pytest

from cronhare.application.administration.explain import ExplanationView
from cronhare.application.administration.jobs_file.difference import (
    Change,
    ChangedKind,
    FieldChange,
    ScheduleChange,
)
from cronhare.application.administration.story import Explanation
from cronhare.application.administration.views.executions import (
    AttemptView,
    ExecutionView,
    OutputView,
)
from cronhare.application.administration.views.failures import DeadLetterRecord, FailureView
from cronhare.application.administration.views.schedules import (
    ClockEffectView,
    LastRun,
    PauseView,
    ScheduleChangeView,
    ScheduleView,
)
from cronhare.application.administration.views.values import CrashView, ErrorView, RetryView
from cronhare.application.administration.views.work import NodeView, QueueView
from cronhare.application.doctor.finding import DiagnosisView, Finding
from cronhare.application.reports.clock_effects import ClockEffect, EffectKind
from cronhare.domain.cron import Fold, Gap
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.messages import PoisonPillRecord, TaskMessage
from cronhare.domain.nodes import SILENT_AFTER, NodeReport, NodeState
from cronhare.domain.retries.outcome import Crash, CrashPolicy, Ending, ErrorClass, TaskError
from cronhare.domain.retries.policy import Backoff, BackoffType, Jitter, RetryPolicy
from cronhare.domain.schedules.catalog import NoListener
from cronhare.domain.schedules.conditions import Conditions
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import Trigger
from cronhare.domain.schedules.schedule import Concurrency, Misfire, MisfirePolicy, OverlapPolicy
from cronhare.domain.schedules.skips import Pause
from cronhare.domain.schedules.task import ClassRetention, TaskRef
from cronhare.ports.inspection import Fit, Kind, Severity, Thing
from cronhare.ports.records import Attempt, Output, QueueLoad
from cronhare.ports.runner import Captured, TaskReport
from cronhare.ports.schedules import StoredSchedule
from tests.unit.executions import NOON, execution

SECOND = timedelta(seconds=1)
TASK = TaskRef("worker", 102)

POLICY = RetryPolicy(
    attempts=7,
    backoff=Backoff(
        type=BackoffType.SEQUENCE,
        delay=1_500,
        multiplier=3.5,
        max_delay=60_000,
        jitter=Jitter.BOTH,
        sequence=(2_000, 4_250),
    ),
    crashes=CrashPolicy(limit=2, window=60 * SECOND, timeouts=False),
)
RETRY: dict[str, Any] = {
    "attempts": 7,
    "backoff": "sequence",
    "delay_seconds": 1.5,
    "delays_seconds": (2.0, 4.25),
    "multiplier": 3.5,
    "max_delay_seconds": 60.0,
    "jitter": "both",
    "crashes": CrashView(limit=2, window_seconds=60.0, timeouts=False),
}

ERROR = TaskError(
    message="no",
    code="E9",
    error_class=ErrorClass.RATE_LIMITED,
    types=("TooMany", "HTTPError"),
    retry_after=1.5 * SECOND,
    retry_at=NOON + 90 * SECOND,
    stack="line 3",
)
SHOWN_ERROR = ErrorView(
    message="no",
    code="E9",
    error_class="rate-limited",
    types=("TooMany", "HTTPError"),
    retry_after_seconds=1.5,
    retry_at=NOON + 90 * SECOND,
    stack="line 3",
)

#: Alike in an execution and its view.
SAME: dict[str, Any] = {
    "id": 101,
    "task": TASK,
    "scheduler_id": 103,
    "schedule_name": "mails",
    "key": "cron-2026-3-2-11-59",
    "state": State.PUBLISHED,
    "task_name": "send",
    "source": "jobs.toml",
    "queue": "letters",
    "attempt": 2,
    "deaths": 3,
    "version": 4,
    "due_at": NOON + 1 * SECOND,
    "last_due_at": NOON + 2 * SECOND,
    "missed": 5,
    "executed_at": NOON + 3 * SECOND,
    "container_id": "ant-7",
    "owner": "bee-8",
    "lease_until": NOON + 4 * SECOND,
    "next_attempt_at": NOON - 5 * SECOND,
    "check_at": NOON + 6 * SECOND,
    "published_at": NOON + 7 * SECOND,
    "resends": 6,
    "started_at": NOON + 8 * SECOND,
    "finished_at": NOON + 9 * SECOND,
    "cancel_requested": False,
    "last_error": "retry 2/3",
    "concurrency_key": "customer-42",
    "overlap_policy": "queue_all",
    "expires_at": NOON + 11 * SECOND,
    "held_by": None,
    "topic": "letters.due",
    "no_listener": "fail",
    "problem": None,
}
CRASH = Crash(NOON + 10 * SECOND, Ending.LOST, "ant-7")
EXECUTION = execution(
    **SAME, crashes=(CRASH,), params='{"a":1}', retry=POLICY, timeout=11.5 * SECOND
)
SHOWN_EXECUTION: dict[str, Any] = {
    "trigger": Trigger.TIME,
    **SAME,
    "crashed_at": (NOON + 10 * SECOND,),
    "params": {"a": 1},
    "retry": RetryView(**RETRY),
    "timeout_seconds": 11.5,
    "sent_again_at": NOON + 6 * SECOND + timedelta(minutes=5),
    "waits_for": "a worker that serves queue letters",
    "status": "waiting",
    "completed_at": None,
    "progress": 0.5,
    "progress_text": "half",
    "result": {"rows": [1]},
}
SILENT = dict.fromkeys(("progress", "progress_text", "result"))
REPORT = TaskReport(
    progress=0.5, progress_text="half", result='{"rows":[1]}', result_problem="too large"
)

ATTEMPT = Attempt(
    execution_id=101,
    attempt=2,
    node="ant-7",
    pid=4711,
    started_at=NOON,
    finished_at=NOON + 2.5 * SECOND,
    ending="failed",
    exit_code=3,
    signal=9,
    error=ERROR.as_json(),
    peak_memory=5,
    cpu_seconds=0.25,
    left_running=2,
    problem="no number",
)
SHOWN_ATTEMPT: dict[str, Any] = {
    "execution_id": 101,
    "attempt": 2,
    "node": "ant-7",
    "pid": 4711,
    "started_at": NOON,
    "finished_at": NOON + 2.5 * SECOND,
    "run_seconds": 2.5,
    "ending": "failed",
    "exit_code": 3,
    "signal": 9,
    "error": SHOWN_ERROR,
    "peak_memory_bytes": 5,
    "cpu_seconds": 0.25,
    "left_running": 2,
    "problem": "no number",
    "progress": 0.5,
    "progress_text": "half",
    "result": {"rows": [1]},
    "result_problem": "too large",
}

OUTPUT: dict[str, Any] = {
    "attempt": 2,
    "stdout": Captured(head="a", tail="b", bytes=3),
    "stderr": Captured(head="c", tail="d", bytes=4),
    "as_of": NOON,
    "problem": "cut",
}

#: Alike in a row of the archive and its view.
KEPT: dict[str, Any] = {
    "id": 201,
    "execution_id": 101,
    "scheduler_id": 103,
    "schedule_name": "mails",
    "execution_key": "manual-1",
    "kind": "quarantined",
    "task_name": "send",
    "source": "jobs.toml",
    "queue": "letters",
    "failed_at": NOON + 1 * SECOND,
    "failed_reason": "3 crashes",
    "attempts": 4,
    "retry_count": 3,
    "resolved_at": NOON + 2 * SECOND,
    "resolution": "discarded",
    "note": "known",
    "check_at": NOON + 3 * SECOND,
    "crash_count": 3,
    "first_crash_at": NOON,
    "topic": "letters.due",
    "paused_after": 5,
}
ARCHIVED = Archived(
    **KEPT,
    task_type="worker",
    task_id=102,
    params="[1]",
    error=ERROR.as_json(),
    options='{"retry":null}',
)
DEAD_LETTER = DeadLetterRecord(
    original_queue="letters",
    original_job_id="101",
    original_job_name="letters.due",
    original_data=TaskMessage(type="worker", id=102, scheduler_id=103, params_scheduler="[1]"),
    original_options={"retry": None},
    failure_reason="3 crashes",
    failure_stack="line 3",
    attempts_made=4,
    failed_at="2026-03-02T12:00:01.000Z",
    poison_pill_record=PoisonPillRecord(
        job_id="101",
        crash_count=3,
        first_crash_at="2026-03-02T12:00:00.000Z",
        last_crash_at="2026-03-02T12:00:01.000Z",
    ),
    quarantined_at="2026-03-02T12:00:01.000Z",
)
FAILURE = {
    **KEPT,
    "task": TASK,
    "params": [1],
    "error": SHOWN_ERROR,
    "options": {"retry": None},
    "poison_key": "poison:letters:101",
    "report_id": None,
    "description": None,
    "user_id": None,
    "group_id": None,
    "dead_letter": DEAD_LETTER,
    "problem": None,
}

#: Alike in a draft and its view.
DRAWN: dict[str, Any] = {
    "name": "mails",
    "task": TASK,
    "task_name": "send",
    "topic": "letters.due",
    "no_listener": NoListener.FAIL,
    "schedule": "0 8 * * *",
    "date_time": NOON + 1 * SECOND,
    "timezone": "Europe/Berlin",
    "status": False,
    "description": "letters of the day",
    "starts_at": NOON + 2 * SECOND,
    "ends_at": NOON + 3 * SECOND,
    "queue": "cron_standalone.mails",
    "stay_alive": True,
    "user_id": 7,
    "group_id": 8,
    "language_id": 9,
}
DRAFT = ScheduleDraft(
    **DRAWN,
    params='{"b":2}',
    retry=POLICY,
    retention=ClassRetention(class_="emails", done=21, failed=22),
    misfire=Misfire(policy=MisfirePolicy.ALL, window=4.5 * SECOND, cap=6),
    overlap=OverlapPolicy.SKIP,
    concurrency=Concurrency(key="customer-{params.id}", limit=12),
    timeout=7.5 * SECOND,
    jitter=8.5 * SECOND,
    every=9 * SECOND,
    gap=Gap.SKIP,
    fold=Fold.BOTH,
    conditions=Conditions(
        max_runs=7,
        pause_after=4,
        expires=9.5 * SECOND,
        skip_on=("holidays",),
        only_on=("workdays",),
        blackout=("Sat",),
    ),
)
#: What stands beside the row.
BESIDE: dict[str, Any] = {
    "pause": Pause(since=NOON - SECOND, until=NOON + SECOND, by="ann", reason="move"),
    "claimed": 5,
}
#: Alike in a stored schedule and its view.
STORED: dict[str, Any] = {
    "id": 103,
    "name": "mails",
    "source": "jobs.toml",
    "created_at": NOON + 4 * SECOND,
    "updated_at": NOON + 5 * SECOND,
    "planned": True,
    "next_due_at": NOON + 6 * SECOND,
    "problem": "its own",
}
LAST: dict[str, Any] = {
    "trigger": Trigger.TIME,
    "execution_id": 101,
    "state": State.PUBLISHED,
    "due_at": NOON + 1 * SECOND,
    "started_at": NOON + 8 * SECOND,
    "finished_at": NOON + 9 * SECOND,
    "status": "waiting",
    "completed_at": None,
}
SCHEDULE: dict[str, Any] = {
    **DRAWN,
    **STORED,
    "params": {"b": 2},
    "retry": RetryView(**RETRY),
    "retry_facts": (
        "7 runs, waits 2 s, 4.25 s, 4.25 s, 4.25 s, 4.25 s, 4.25 s, 23.25 s in all; each up to "
        "10 % shorter or longer"
    ),
    "task_class": "emails",
    "keep_done": 21,
    "keep_failed": 22,
    "misfire_policy": "all",
    "misfire_window_seconds": 4.5,
    "misfire_cap": 6,
    "overlap_policy": "skip",
    "concurrency_key": "customer-{params.id}",
    "concurrency_limit": 12,
    "timeout_seconds": 7.5,
    "jitter_seconds": 8.5,
    "every_seconds": 9.0,
    "gap_policy": "skip",
    "fold_policy": "both",
    "max_runs": 7,
    "runs_claimed": 5,
    "pause_after": 4,
    "expires_seconds": 9.5,
    "skip_on": ("holidays",),
    "only_on": ("workdays",),
    "blackout": ("Sat",),
    "pause": PauseView(on=True, since=NOON - SECOND, until=NOON + SECOND, by="ann", reason="move"),
    "last_run": LastRun(**LAST),
}

NODE: dict[str, Any] = {
    "name": "ant-7-1",
    "role": "worker",
    "host": "ant",
    "version": "1.4.0",
    "started_at": NOON - SECOND,
    "seen_at": NOON,
    "queues": ("letters",),
    "concurrency": 4,
    "running": 3,
    "consuming": True,
    "drain_asked_at": None,
    "consumed_at": NOON - SECOND,
    "source": "jobs.toml",
    "digest": "0a1b2c3d4e5f",
}

LOADS = [
    QueueLoad(queue="letters", state=State.CLAIMED, executions=1, oldest_due_at=NOON + SECOND),
    QueueLoad(queue="letters", state=State.PUBLISHED, executions=10, oldest_due_at=NOON),
    QueueLoad(queue="letters", state=State.RETRYING, executions=100, oldest_due_at=None),
    QueueLoad(queue="letters", state=State.HELD, executions=1_000, oldest_due_at=None),
    QueueLoad(queue="letters", state=State.RUNNING, executions=50, oldest_due_at=NOON - SECOND),
    QueueLoad(queue="others", state=State.CLAIMED, executions=7, oldest_due_at=NOON - SECOND),
]
THING = Thing(kind=Kind.QUEUE, name="letters", fit=Fit.FITS, messages=8, consumers=9)
QUEUE: dict[str, Any] = {
    "queue": "letters",
    "schedules": 2,
    "waiting": 11,
    "retrying": 100,
    "held": 1_000,
    "running": 50,
    "oldest_due_at": NOON,
    "messages": 8,
    "consumers": 9,
}

FINDINGS = tuple(
    Finding(severity=severity, subject="x", what=severity.value)
    for severity in (
        Severity.OK,
        Severity.ERROR,
        Severity.NOTE,
        Severity.WARNING,
        Severity.WARNING,
    )
)


def queue_view(thing: Thing | None) -> QueueView:
    return QueueView.of("letters", schedules=2, loads=LOADS, thing=thing)


def explained(found: Explanation) -> ExplanationView:
    return ExplanationView.of(found, name="mails", timezone="UTC", instant=NOON - SECOND, now=NOON)


def policy(*, max_delay: int | None) -> RetryPolicy:
    return attrs.evolve(POLICY, backoff=attrs.evolve(POLICY.backoff, max_delay=max_delay))


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        (ExecutionView.of(EXECUTION, now=NOON, report=REPORT), SHOWN_EXECUTION),
        (
            ExecutionView.of(
                msgspec.structs.replace(EXECUTION, retry=None, timeout=None),
                now=NOON,
                report=REPORT,
            ),
            SHOWN_EXECUTION | {"retry": None, "timeout_seconds": None},
        ),
        (AttemptView.of(ATTEMPT, REPORT), SHOWN_ATTEMPT),
        (
            AttemptView.of(attrs.evolve(ATTEMPT, finished_at=None, error=None), REPORT),
            SHOWN_ATTEMPT | {"finished_at": None, "run_seconds": None, "error": None},
        ),
        (OutputView.of(Output(**OUTPUT), running=True), OUTPUT | {"running": True}),
        (OutputView.of(Output(**OUTPUT), running=False), OUTPUT | {"running": False}),
        (FailureView.of(ARCHIVED), FAILURE),
        (
            FailureView.of(
                attrs.evolve(
                    ARCHIVED,
                    execution_id=0,
                    kind="failed",
                    task_name=None,
                    topic=None,
                    error=None,
                    options=None,
                    crash_count=None,
                    first_crash_at=None,
                )
            ),
            FAILURE
            | {
                "execution_id": None,
                "kind": "failed",
                "task_name": None,
                "topic": None,
                "error": None,
                "options": None,
                "crash_count": None,
                "first_crash_at": None,
                "poison_key": None,
                "dead_letter": msgspec.structs.replace(
                    DEAD_LETTER,
                    original_job_id="manual-1",
                    original_job_name="worker 102",
                    original_options=None,
                    failure_stack=None,
                    poison_pill_record=None,
                    quarantined_at=None,
                ),
            },
        ),
        (RetryView.of(POLICY), RETRY),
        (RetryView.of(policy(max_delay=None)), RETRY | {"max_delay_seconds": None}),
        (LastRun.of(EXECUTION), LAST),
        (
            ScheduleView.of(
                StoredSchedule(**STORED, **BESIDE, draft=DRAFT),
                EXECUTION,
                policy=RetryPolicy(),
                now=NOON,
            ),
            SCHEDULE,
        ),
        (
            ScheduleView.of(
                StoredSchedule(
                    **STORED,
                    draft=attrs.evolve(
                        DRAFT, retry=None, retention=None, timeout=None, conditions=None
                    ),
                ),
                None,
                policy=RetryPolicy(attempts=1),
                now=NOON,
            ),
            SCHEDULE
            | {
                "retry": None,
                "task_class": None,
                "keep_done": None,
                "keep_failed": None,
                "retry_facts": "1 run, no retry",
                "timeout_seconds": None,
                "last_run": None,
            }
            | {"max_runs": None, "runs_claimed": None, "expires_seconds": None, "pause": None}
            | {"pause_after": None}
            | dict.fromkeys(("skip_on", "only_on", "blackout"), ()),
        ),
        (
            ScheduleView.of(
                StoredSchedule(**STORED, draft=None, text="0 8 *"),
                None,
                policy=RetryPolicy(),
                now=NOON,
            ),
            dict.fromkeys(SCHEDULE) | STORED | {"schedule": "0 8 *"},
        ),
        (queue_view(THING), QUEUE),
        (queue_view(None), QUEUE | {"messages": None, "consumers": None}),
        (
            queue_view(attrs.evolve(THING, fit=Fit.MISSING)),
            QUEUE | {"messages": None, "consumers": None},
        ),
        (
            NodeView.of(NodeReport(**NODE, clock_offset=-1.5 * SECOND), now=NOON),
            NODE
            | {
                "silent": False,
                "state": NodeState.AT_WORK,
                "runs_tasks": True,
                "clock_offset_seconds": -1.5,
            },
        ),
        (
            NodeView.of(NodeReport(**NODE), now=NOON + SILENT_AFTER + SECOND),
            NODE
            | {
                "silent": True,
                "state": NodeState.SILENT,
                "runs_tasks": True,
                "clock_offset_seconds": 0.0,
            },
        ),
        (
            DiagnosisView.of(FINDINGS),
            {"healthy": False, "errors": 1, "warnings": 2, "findings": FINDINGS},
        ),
        (
            DiagnosisView.of(FINDINGS[3:]),
            {"healthy": True, "errors": 0, "warnings": 2, "findings": FINDINGS[3:]},
        ),
        (
            explained(
                Explanation(
                    ran=True,
                    answer="It ran",
                    because=("once", "twice"),
                    execution=EXECUTION,
                    attempts=(ATTEMPT,),
                )
            ),
            {
                "schedule_name": "mails",
                "instant": NOON - SECOND,
                "timezone": "UTC",
                "ran": True,
                "answer": "It ran",
                "because": ("once", "twice"),
                "execution": ExecutionView(**(SHOWN_EXECUTION | SILENT)),
                "attempts": (AttemptView(**(SHOWN_ATTEMPT | SILENT | {"result_problem": None})),),
            },
        ),
        (
            explained(Explanation(ran=False, answer="It did not run")),
            {
                "schedule_name": "mails",
                "instant": NOON - SECOND,
                "timezone": "UTC",
                "ran": False,
                "answer": "It did not run",
                "because": (),
                "execution": None,
                "attempts": (),
            },
        ),
        (
            ScheduleChangeView.of(
                ScheduleChange(
                    name="mails",
                    change=Change.CHANGE,
                    fields=(
                        FieldChange("timeout", None, 2 * SECOND),
                        FieldChange("misfire", Misfire(), Misfire(cap=6)),
                    ),
                ),
                [ClockEffect(EffectKind.MOVED, NOON, NOON.replace(hour=11, minute=30))],
            ),
            {
                "kind": ChangedKind.SCHEDULE,
                "name": "mails",
                "change": Change.CHANGE,
                "fields": (
                    FieldChange(field="timeout_seconds", before=None, after=2.0),
                    FieldChange(field="misfire_cap", before=100, after=6),
                ),
                "clock": (
                    ClockEffectView(
                        kind=EffectKind.MOVED,
                        at=NOON,
                        meant="2026-03-02T11:30",
                        text="11:30 does not exist that day: it runs after the gap",
                    ),
                ),
            },
        ),
    ],
)
def test_each_field_is_shown_under_its_name(view: Any, shown: dict[str, Any]) -> None:  # noqa: ANN401
    assert attrs.asdict(view, recurse=False) == shown


@pytest.mark.parametrize(
    ("state", "held_by", "shown"),
    [(State.HELD, "key a", "key a"), (State.RUNNING, "place a", None)],
)
def test_a_gate_is_shown_of_what_it_holds_back_alone(
    state: State, held_by: str, shown: str | None
) -> None:
    found = msgspec.structs.replace(EXECUTION, state=state, held_by=held_by)

    assert ExecutionView.of(found, now=NOON).held_by == shown

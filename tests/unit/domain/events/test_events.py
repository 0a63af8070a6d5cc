import json
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import msgspec

from cronhare.domain.events import events
from cronhare.domain.events.events import LARGEST_PARAMS
from cronhare.domain.events.outbox import LARGEST_EVENT
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.schedules.task import TaskRef

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
FAILED = Archived(
    id=5,
    execution_id=7,
    scheduler_id=16,
    schedule_name="token",
    execution_key="cron-2026-3-2-12-0",
    kind="failed",
    task_type="report",
    task_id=25,
    queue="cron_scheduler",
    params='{"a":1}',
    failed_at=NOON,
    failed_reason="Connection timeout",
    error=None,
    attempts=4,
    retry_count=3,
    source="jobs.toml",
    task_name="refresh",
)

CLAIMED = Execution(
    id=7,
    scheduler_id=16,
    schedule_name="charge",
    key="cron-2026-3-2-12-0",
    state=State.CLAIMED,
    task=TaskRef("event", 25),
    params='{"order":7}',
    queue="cron_scheduler",
    attempt=1,
    deaths=0,
    version=1,
    due_at=NOON,
    executed_at=NOON + timedelta(seconds=1),
    container_id="ant",
    source="jobs.toml",
    topic="payments.charge-reminder",
)


def document(row: Archived) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(events.bad_end(row).document)


def test_a_failure_is_told_as_the_original_does() -> None:
    said = document(FAILED)

    assert said["type"] == "schedule.failed"
    assert {name: said["data"][name] for name in ("scheduledJobId", "topic", "lastError")} == {
        "scheduledJobId": 16,
        "topic": None,
        "lastError": "Connection timeout",
    }
    assert said["data"]["attempts"] == 4
    assert set(said["data"]) == {"scheduledJobId", "topic", "lastError", "attempts", "metadata"}
    assert said["data"]["metadata"]["alert"] == {
        "severity": "high",
        "message": "Task permanently failed after 3 retries",
        "task": {"type": "report", "id": 25, "scheduler_id": 16, "params_scheduler": '{"a":1}'},
    }


def test_a_schedule_that_paused_itself_is_told_with_its_last_error() -> None:
    said = json.loads(events.paused(attrs.evolve(FAILED, paused_after=5)).document)

    assert said["type"] == "schedule.paused"
    assert (said["data"]["failures"], said["data"]["lastError"]) == (5, "Connection timeout")
    assert said["data"]["alert"]["message"] == (
        "5 failures in a row, the last one: Connection timeout. "
        "To end that: cronhare schedules resume token"
    )


def arrived(execution: Execution) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(events.arrived(execution).document)


def test_a_due_instant_that_has_arrived_is_told_with_its_topic_and_payload() -> None:
    said = arrived(CLAIMED)

    assert (said["type"], said["timestamp"]) == ("schedule.arrived", "2026-03-02T12:00:01Z")
    metadata = said["data"].pop("metadata")
    assert said["data"] == {
        "scheduledJobId": 16,
        "topic": "payments.charge-reminder",
        "payload": {"order": 7},
    }
    assert metadata["dueAt"] == "2026-03-02T12:00:00Z"
    assert (metadata["schedule"], metadata["executionId"], metadata["attempt"]) == ("charge", 7, 1)


def test_an_arrival_tells_no_params_of_a_task_and_no_payload_that_is_long_or_no_json() -> None:
    long = json.dumps("x" * LARGEST_PARAMS)
    deep = "[" * LARGEST_PARAMS
    strange = [
        msgspec.structs.replace(CLAIMED, params=params) for params in (long, deep, "{", '"\ud800"')
    ]
    without_topic = msgspec.structs.replace(CLAIMED, topic=None)

    told = [arrived(one)["data"]["payload"] for one in (without_topic, *strange)]

    assert told == [None] * 5


def test_a_poison_pill_is_told_with_its_record() -> None:
    pill = attrs.evolve(
        FAILED, kind="quarantined", crash_count=3, first_crash_at=NOON - timedelta(minutes=2)
    )
    record = {
        "jobId": "7",
        "crashCount": 3,
        "firstCrashAt": "2026-03-02T11:58:00.000Z",
        "lastCrashAt": "2026-03-02T12:00:00.000Z",
    }

    said = document(pill)

    assert said["type"] == "schedule.quarantined"
    assert said["data"]["metadata"]["poisonPillRecord"] == record
    alert = said["data"]["metadata"]["alert"]
    assert (alert["severity"], alert["title"]) == ("critical", "Poison Pill Job Quarantined")
    assert alert["message"] == "Job 7 in queue cron_scheduler caused 3 worker crashes"
    assert alert["metadata"] == record


def test_an_event_is_bounded_whatever_a_row_holds() -> None:
    hostile = "\ud800\x00\u202e" * 4_000_000
    spoilt = attrs.evolve(
        FAILED,
        schedule_name=hostile,
        execution_key=hostile,
        failed_reason=hostile,
        params=hostile,
        queue=hostile,
        task_type=hostile,
        task_name=hostile,
        source=hostile,
    )

    text = events.bad_end(spoilt).document

    assert len(text) < LARGEST_EVENT
    assert json.loads(text)["data"]["metadata"]["alert"]["task"]["params_scheduler"] is None
    assert len(hostile) > LARGEST_PARAMS

"""What events say, alone and together, and what a service is told of a run."""

import json
from datetime import timedelta
from typing import Any

import attrs
import msgspec
import pytest

from cronhare.domain.events import events
from cronhare.domain.events.events import LARGEST_PARAMS
from cronhare.domain.events.outbox import (
    LARGEST_EVENT,
    SHOWN,
    OutboxRow,
    RunEnd,
    Turn,
    decide,
    digest,
    ping_of,
)
from cronhare.domain.events.targets import type_of
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.schedules.task import TaskRef
from tests.trial_event import trial
from tests.unit.executions import NOON, archived, execution

FAILED = archived(schedule_name="token", source="jobs.toml", task_name="refresh")

CLAIMED = execution(
    id=7,
    scheduler_id=16,
    schedule_name="charge",
    task=TaskRef("event", 25),
    params='{"order":7}',
    executed_at=NOON + timedelta(seconds=1),
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
    texts = ("schedule_name", "execution_key", "failed_reason", "params", "queue")
    spoilt = dict.fromkeys((*texts, "task_type", "task_name", "source"), hostile)

    text = events.bad_end(archived(**spoilt)).document

    assert len(text) < LARGEST_EVENT
    assert json.loads(text)["data"]["metadata"]["alert"]["task"]["params_scheduler"] is None
    assert len(hostile) > LARGEST_PARAMS


def rows(count: int, **changes: Any) -> list[OutboxRow]:  # noqa: ANN401
    row = OutboxRow.of(trial("ops", now=NOON, id_="1"), "ops", source="shop", now=NOON)
    return [attrs.evolve(row, id=number, **changes) for number in range(1, count + 1)]


def data(row: OutboxRow) -> Any:  # noqa: ANN401
    return msgspec.json.decode(row.payload)["data"]


@pytest.mark.parametrize(
    ("waiting", "lately", "turn"),
    [
        (5, 0, Turn.EACH),
        (6, 0, Turn.TOGETHER),
        (2, 3, Turn.EACH),
        (3, 3, Turn.HOLD),
    ],
)
def test_more_than_so_many_within_a_minute_are_told_together(
    waiting: int, lately: int, turn: Turn
) -> None:
    assert decide(waiting, lately=lately, most=5) is turn


def test_a_digest_counts_and_has_the_first_few() -> None:
    names = ["a", "a", "b", "c", "d", "e", "f"]
    many = [attrs.evolve(row, schedule_name=name) for row, name in zip(rows(7), names, strict=True)]

    one = digest(many)

    assert (one.event, type_of(one.event), one.target) == ("digest", "digest", "ops")
    said = data(one)
    assert said["alert"]["message"] == (
        "7 events of schedule.failed: a (2), b (1), c (1), d (1), e (1), and 1 other"
    )
    assert (said["count"], said["event"], len(said["first"])) == (7, "schedule.failed", SHOWN)
    assert one.event_key == digest(many).event_key


def test_a_digest_of_long_events_is_no_longer_than_an_event_may_be() -> None:
    long = '{"data":{"x":"' + "x" * (LARGEST_EVENT // 2 - 30) + '"}}'

    one = digest(rows(9, payload=long))

    assert len(one.payload) < LARGEST_EVENT
    assert (len(data(one)["first"]), data(one)["count"]) == (1, 9)


@pytest.mark.parametrize(
    ("state", "exit_code", "path"),
    [
        (State.SUCCEEDED, 0, ""),
        (State.FAILED, 1, "/1"),
        (State.FAILED, 0, "/fail"),  # services take /0 for success
        (State.FAILED, -9, "/fail"),
        (State.FAILED, None, "/fail"),
        (State.QUARANTINED, 1, "/fail"),
    ],
)
def test_what_failed_is_never_told_as_good(state: State, exit_code: int | None, path: str) -> None:
    row = ping_of(execution(state), RunEnd(exit_code=exit_code), "hc", source="shop", now=NOON)

    assert msgspec.json.decode(row.payload)["data"]["path"] == path

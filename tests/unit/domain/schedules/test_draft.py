from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest

from cronhare.domain.cron import CronExpression
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid, compile_schedule
from cronhare.domain.schedules.schedule import (
    ByHand,
    Misfire,
    Once,
    OverlapPolicy,
    Recurring,
    Schedule,
)
from cronhare.domain.schedules.task import LARGEST_PARAMS, TaskRef

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
DRAFT = ScheduleDraft(name="report", task=TaskRef("report", 25), schedule="0 8 * * *")


def understood(**changes: Any) -> Schedule:  # noqa: ANN401
    return compile_schedule(attrs.evolve(DRAFT, **changes), id=16, changed_at=NOON)


def faults_of(**changes: Any) -> dict[str, str]:  # noqa: ANN401
    with pytest.raises(ScheduleInvalid) as refused:
        understood(**changes)
    return {fault.field: fault.problem for fault in refused.value.faults}


def test_cron_text_makes_a_recurring_schedule() -> None:
    schedule = understood(timezone="Europe/Berlin")

    assert schedule.timing == Recurring(
        CronExpression.parse("0 8 * * *"), ZoneInfo("Europe/Berlin")
    )


def test_a_date_time_makes_a_one_off() -> None:
    assert understood(schedule=None, date_time=NOON).timing == Once(NOON)


def test_neither_makes_a_schedule_by_hand() -> None:
    assert understood(schedule=None).timing == ByHand()


def test_everything_else_is_carried_over() -> None:
    retry = RetryPolicy(attempts=2)
    misfire = Misfire(cap=7)

    schedule = understood(
        params='{"v":1}',
        status=False,
        retry=retry,
        misfire=misfire,
        overlap=OverlapPolicy.SKIP,
        timeout=timedelta(minutes=5),
        jitter=timedelta(seconds=5),
        starts_at=NOON,
        ends_at=NOON,
        queue="cron_scheduler.slow",
    )

    assert schedule == Schedule(
        id=16,
        name="report",
        task=TaskRef("report", 25),
        timing=schedule.timing,
        changed_at=NOON,
        params='{"v":1}',
        enabled=False,
        retry=retry,
        misfire=misfire,
        overlap=OverlapPolicy.SKIP,
        timeout=timedelta(minutes=5),
        jitter=timedelta(seconds=5),
        starts_at=NOON,
        ends_at=NOON,
        queue="cron_scheduler.slow",
    )


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"schedule": "61 * * * *"}, "schedule", "61"),
        ({"schedule": ""}, "schedule", ""),
        ({"schedule": "@reboot"}, "schedule", "on_boot"),
        ({"schedule": "0 0 30 2 *"}, "schedule", "never fires: "),
        ({"timezone": "Europe/Berln"}, "timezone", "Europe/Berlin"),
        ({"date_time": NOON}, "date_time", "not both"),
        ({"params": f'"{"x" * LARGEST_PARAMS}"'}, "params", "102402 bytes of JSON"),
        (
            {"params": f'"{"x" * LARGEST_PARAMS}"', "topic": "shop.order"},
            "payload",
            "102402 bytes of JSON",
        ),
        ({"starts_at": NOON, "ends_at": NOON - timedelta(1)}, "ends_at", "before starts_at"),
    ],
)
def test_a_draft_that_cannot_be_says_what_is_wrong(
    changes: dict[str, Any], field: str, problem: str
) -> None:
    faults = faults_of(**changes)

    assert faults.keys() == {field}
    assert problem in faults[field]


def test_every_fault_is_named_at_once() -> None:
    faults = faults_of(
        schedule="61 * * * *",
        date_time=NOON,
        timezone="Nowhere",
        starts_at=NOON,
        ends_at=NOON - timedelta(days=1),
    )

    assert faults.keys() == {"schedule", "date_time", "timezone", "ends_at"}

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid, compile_schedule
from cronhare.domain.schedules.schedule import (
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

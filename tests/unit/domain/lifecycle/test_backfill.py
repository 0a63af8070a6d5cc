from datetime import UTC, datetime, timedelta

import pytest

from cronhare.domain.lifecycle.backfill import left_out
from cronhare.domain.schedules.draft import ScheduleDraft, compile_schedule
from cronhare.domain.schedules.skips import Circumstances
from cronhare.domain.schedules.task import TaskRef

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("instant", "is_due"),
    [
        (NOON, True),
        (NOON + timedelta(seconds=30), False),
        (NOON - timedelta(microseconds=1), False),
        (datetime.max.replace(tzinfo=UTC), False),
    ],
)
def test_only_an_instant_that_was_due_is_one(instant: datetime, *, is_due: bool) -> None:
    draft = ScheduleDraft(name="a", task=TaskRef("report", 25), schedule="* * * * *")
    schedule = compile_schedule(draft, id=1, changed_at=NOON, source=None)

    assert left_out(schedule, Circumstances(calendars={}), instant) == (is_due, None)

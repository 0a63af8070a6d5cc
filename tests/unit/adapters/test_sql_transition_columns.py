from datetime import UTC, datetime

from cronhare.adapters.sql.isolation.quarantine import QUARANTINED_FIELDS
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.transitions import changes, set_apart
from cronhare.domain.schedules.task import TaskRef

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_setting_apart_writes_all_that_it_changes() -> None:
    running = Execution(
        id=1,
        scheduler_id=1,
        schedule_name="report",
        key="cron-2026-3-2-12-0",
        state=State.RUNNING,
        task=TaskRef("report", 25),
        params="{}",
        queue="cron_scheduler",
        attempt=1,
        deaths=0,
        version=7,
        due_at=NOON,
        executed_at=NOON,
        container_id="ant",
        owner="ant",
        lease_until=NOON,
        next_attempt_at=NOON,
        check_at=NOON,
    )

    changed = changes(running, set_apart(running, "broken", now=NOON))

    assert changed.keys() == set(QUARANTINED_FIELDS)

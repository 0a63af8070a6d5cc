from cronhare.adapters.sql.writing import SET_APART
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.transitions import changes, set_apart
from tests.unit.executions import NOON, execution


def test_setting_apart_writes_all_that_it_changes() -> None:
    running = execution(
        State.RUNNING,
        version=7,
        owner="ant",
        lease_until=NOON,
        next_attempt_at=NOON,
        check_at=NOON,
        held_by="key a",
    )

    changed = changes(running, set_apart(running, "broken", now=NOON))

    assert changed.keys() == set(SET_APART)

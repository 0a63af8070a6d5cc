from cronhare.domain.execution import STARTABLE, UNFINISHED, State
from cronhare.domain.lifecycle.transitions import ALLOWED_TRANSITIONS
from tests.unit.executions import execution


def test_whatever_may_start_has_a_road_to_running() -> None:
    assert {state for state in State if State.RUNNING in ALLOWED_TRANSITIONS[state]} == STARTABLE


def test_whatever_is_unfinished_can_be_cancelled_and_nothing_else() -> None:
    assert {state for state in State if State.CANCELLED in ALLOWED_TRANSITIONS[state]} == UNFINISHED


def test_a_message_is_named_by_execution_and_attempt() -> None:
    assert execution(id=17, attempt=3).message_id == "17:3"

import pytest

from cronhare.domain.execution import STARTABLE, UNFINISHED, State, completed_at, outward_status
from cronhare.domain.lifecycle.transitions import ALLOWED_TRANSITIONS
from cronhare.domain.retries.policy import POLICIES
from tests.unit.executions import NOON, execution


def test_whatever_may_start_has_a_road_to_running() -> None:
    assert {state for state in State if State.RUNNING in ALLOWED_TRANSITIONS[state]} == STARTABLE


def test_whatever_is_unfinished_can_be_cancelled_and_nothing_else() -> None:
    assert {state for state in State if State.CANCELLED in ALLOWED_TRANSITIONS[state]} == UNFINISHED


def test_a_message_is_named_by_execution_and_attempt() -> None:
    assert execution(id=17, attempt=3).message_id == "17:3"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.CLAIMED, "waiting"),
        (State.HELD, "waiting"),
        (State.PUBLISHED, "waiting"),
        (State.RUNNING, "active"),
        (State.RETRYING, "active"),
        (State.SUCCEEDED, "completed"),
        (State.FAILED, "failed"),
        (State.QUARANTINED, "quarantined"),
        (State.CANCELLED, "cancelled"),
        (State.SKIPPED, "skipped"),
        (State.HANDED_OVER, "handed-over"),
    ],
)
def test_each_state_has_a_name_outside_and_stays_active_between_two_attempts(
    state: State, expected: str
) -> None:
    assert outward_status(execution(state)) == expected
    assert outward_status(execution(state, retry=POLICIES["emails"])) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.CLAIMED, "waiting"),
        (State.RUNNING, "active"),
        (State.RETRYING, "failed"),
        (State.FAILED, "terminated"),
        (State.SUCCEEDED, "completed"),
    ],
)
def test_with_the_backoff_of_the_lease_style_the_names_are_its_own(
    state: State, expected: str
) -> None:
    assert outward_status(execution(state, retry=POLICIES["lease-style"])) == expected


@pytest.mark.parametrize("state", State)
def test_nothing_but_a_success_is_completed(state: State) -> None:
    ended = execution(state, finished_at=NOON)

    assert completed_at(ended) == (NOON if state is State.SUCCEEDED else None)

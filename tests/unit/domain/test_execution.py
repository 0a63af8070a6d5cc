from itertools import pairwise

import pytest

from cronhare.domain.execution import STARTABLE, UNFINISHED, State
from cronhare.domain.lifecycle.transitions import ALLOWED_TRANSITIONS, can_transition
from tests.unit.executions import execution


@pytest.mark.parametrize(
    "walk",
    [
        "claimed published running succeeded",
        "claimed running succeeded",
        "claimed published running retrying running failed claimed running succeeded",
        "claimed published running quarantined claimed published",
        "claimed quarantined claimed published quarantined",
        "running retrying quarantined",
        "claimed cancelled",
        "published cancelled",
        "running cancelled",
        "retrying cancelled",
    ],
)
def test_an_execution_walks_along_the_roads(walk: str) -> None:
    steps = pairwise(map(State, walk.split()))

    assert all(can_transition(before, after) for before, after in steps)


@pytest.mark.parametrize("ended", [State.SUCCEEDED, State.CANCELLED, State.SKIPPED])
def test_no_road_leads_out_of_an_end(ended: State) -> None:
    assert not any(can_transition(ended, state) for state in State)


def test_what_was_handed_over_can_only_be_reported_as_failed() -> None:
    roads = {state for state in State if can_transition(State.HANDED_OVER, state)}

    assert roads == {State.FAILED}
    assert {state for state in State if can_transition(state, State.HANDED_OVER)} == STARTABLE


def test_only_what_waits_for_its_first_start_is_skipped_later() -> None:
    roads = {state for state in State if can_transition(state, State.SKIPPED)}

    assert roads == {State.CLAIMED, State.PUBLISHED, State.HELD}


def test_every_state_has_its_roads() -> None:
    assert ALLOWED_TRANSITIONS.keys() == set(State)


def test_whatever_may_start_has_a_road_to_running() -> None:
    assert {state for state in State if can_transition(state, State.RUNNING)} == STARTABLE


def test_whatever_is_unfinished_can_be_cancelled_and_nothing_else() -> None:
    assert {state for state in State if can_transition(state, State.CANCELLED)} == UNFINISHED


def test_a_message_is_named_by_execution_and_attempt() -> None:
    assert execution(id=17, attempt=3).message_id == "17:3"

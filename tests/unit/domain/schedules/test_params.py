import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.schedules.task import force_instant

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["options_interface", "delivery", "instant", "x"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@pytest.mark.parametrize("delivery", [{}, {"instant": False}, {"instant": True}, {"to": "me"}])
def test_a_delivery_becomes_instant(delivery: dict[str, object]) -> None:
    params = {"controller": "X", "options_interface": {"delivery": delivery, "a": 1}}

    assert force_instant(params) == {
        "controller": "X",
        "options_interface": {"delivery": {**delivery, "instant": True}, "a": 1},
    }


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"controller": "X"},
        {"options_interface": {}},
        {"options_interface": {"delivery": None}},
        {"options_interface": {"delivery": "mail"}},
        {"options_interface": [{"delivery": {}}]},
        {"delivery": {"instant": False}},
        [{"options_interface": {"delivery": {}}}],
        "text",
        None,
        7,
    ],
)
def test_anything_else_stays_as_it_is(params: object) -> None:
    assert force_instant(params) == params


@given(json)
def test_nothing_is_changed_in_place_and_once_is_enough(params: object) -> None:
    before = copy.deepcopy(params)

    instant = force_instant(params)

    assert params == before
    assert force_instant(instant) == instant

"""Values beyond the limits are found at a cost that follows from what is read of them."""

import pytest

from cronhare.adapters.jobs.reader import beyond_toml
from cronhare.domain.schedules.catalog import DEEPEST


def _nested(inmost: object, depth: int) -> object:
    for _ in range(depth):
        inmost = [inmost]
    return inmost


def test_a_value_beyond_the_limits_is_named_by_its_place() -> None:
    content: dict[str, object] = {"a": {"b": [1, 2**63]}, "c": -(2**63) - 1, "d": True}

    assert [path for path, _ in beyond_toml(content)] == [(".a", ".b", "[1]"), (".c",)]


@pytest.mark.parametrize(("depth", "faults"), [(DEEPEST - 1, 0), (DEEPEST, 1), (900, 1)])
def test_what_lies_too_deep_is_told_once_and_not_looked_into(depth: int, faults: int) -> None:
    assert len(list(beyond_toml({"a": _nested(1, depth)}))) == faults

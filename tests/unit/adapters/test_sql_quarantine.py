"""Which rows are set apart, and what is written of them."""

from typing import Any

import pytest

from cronhare.adapters.sql.isolation.quarantine import quarantine_broken
from cronhare.adapters.sql.mapping.archive_rows import ARCHIVE
from cronhare.domain.execution import UNFINISHED, State
from tests.unit.executions import NOON, execution


class Written:
    """A connection that notes what is written."""

    def __init__(self) -> None:
        self.archived: list[dict[str, Any]] = []
        self.changed: list[dict[str, Any]] = []

    def execute(self, statement: object, values: dict[str, Any]) -> None:
        """Note it."""
        (self.archived if statement is ARCHIVE else self.changed).append(values)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("problem", [None, "no number"])
def test_only_what_is_broken_and_has_not_ended_is_set_apart(
    state: State, problem: str | None
) -> None:
    connection: Any = Written()
    is_apart = state in UNFINISHED and problem is not None

    apart = quarantine_broken(connection, [execution(state, problem=problem)], NOON)

    assert apart == ({1} if is_apart else set())
    assert [values["ids"] for values in connection.changed] == ([[1]] if is_apart else [])
    assert len(connection.archived) == len(connection.changed)


def test_what_the_archive_refuses_is_set_apart_without_it() -> None:
    connection: Any = Written()

    assert quarantine_broken(connection, [execution(problem="x")], NOON, archives=False) == {1}
    assert (len(connection.changed), connection.archived) == (1, [])

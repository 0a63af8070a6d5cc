"""What `write_each` says of a batch of which some rows are locked for long."""

from collections.abc import Sequence

import pytest

from cronhare.adapters.sql import writing
from cronhare.adapters.sql.dialect import Locked
from cronhare.adapters.sql.writing import Written, write_each


def test_what_was_not_tried_is_not_called_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "LONGEST_WAIT", 0.0)
    tried = list[int]()

    def write(part: Sequence[int]) -> Written[str]:
        if len(part) == 1:
            tried.extend(part)
        raise Locked("somebody has it")

    answers = write_each(
        [1, 2, 3, 4],
        write,
        refused=lambda one, _: [f"{one} refused"],
        locked=lambda one: [f"{one} locked"],
        untried=lambda one: [f"{one} untried"],
    )

    assert len(tried) == 1
    assert answers == [f"{one} {'locked' if one in tried else 'untried'}" for one in (1, 2, 3, 4)]

"""Choosing and taking, where others hold some of what is chosen."""

from collections.abc import Sequence

import attrs
import pytest

from cronhare.adapters.sql.isolation.past_locked import MOST_PAGES, take_past_locked


@attrs.define
class Rows:
    """What waits, in order; *held* are some of it."""

    on_locked: list[int]
    held: set[int]
    looks: int = 0

    def choose(self, most: int, left: int) -> Sequence[int]:
        """Give the first, without so many."""
        self.looks += 1
        return self.on_locked[left : left + most]

    def take(self, ids: Sequence[int]) -> Sequence[int]:
        """Take what nobody holds: it waits no longer."""
        free = [id_ for id_ in ids if id_ not in self.held]
        self.on_locked = [id_ for id_ in self.on_locked if id_ not in free]
        return free


@pytest.mark.parametrize(
    ("held", "taken", "looks"),
    [
        (range(0), [0, 1, 2], 1),
        (range(9), [9], 4),
        (range(3), [3, 4, 5], 2),
        (range(1, 4), [0, 4, 5], 3),
        (range(10), [], 4),
    ],
    ids=["nothing held", "all but the last", "one page", "within pages", "all"],
)
def test_what_is_behind_held_rows_is_taken(held: range, taken: list[int], looks: int) -> None:
    rows = Rows(list(range(10)), set(held))

    assert take_past_locked(rows.choose, rows.take, limit=3) == taken
    assert rows.looks == looks


def test_one_look_is_bounded() -> None:
    rows = Rows(list(range(1_000)), set(range(999)))

    assert take_past_locked(rows.choose, rows.take, limit=3) == []
    assert rows.looks == MOST_PAGES

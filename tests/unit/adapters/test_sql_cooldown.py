"""What is not asked for again for a while."""

from datetime import UTC, datetime

from cronhare.adapters.sql.dialect import MOST, Cooldown
from cronhare.domain.retries.policy import REST

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_a_row_rests_for_a_while() -> None:
    lately = Cooldown()
    lately.note(7, NOON)

    assert {*lately.at(NOON)} == {7}
    assert not lately.at(NOON + REST)


def test_a_clock_that_is_set_back_keeps_nobody_out_for_longer() -> None:
    lately = Cooldown()
    lately.note(7, NOON)

    assert not lately.at(NOON - REST)


def test_without_room_the_one_goes_that_was_noted_first() -> None:
    lately = Cooldown()
    for id_ in [0, *range(MOST), 0, MOST]:
        lately.note(id_, NOON)

    found = lately.at(NOON)

    assert len(found) == MOST
    assert 1 not in found
    assert {0, MOST} <= {*found}

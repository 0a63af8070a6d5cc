"""How long a queue is left out that took nothing."""

from itertools import pairwise

import pytest

from cronhare.application.rarely import Rarely
from cronhare.application.waiting.in_vain import InVain


@pytest.fixture
def in_vain() -> InVain:
    return InVain(most=2, longest=25.6, known_for=4.0)


def rest(in_vain: InVain, now: float, *, hung: bool, queue: str = "a") -> float:
    """Note a try in vain, and tell for how many tenths of a second it is left out."""
    in_vain.note(queue, now, hung=hung)
    return next(n for n in range(1_000) if not in_vain.is_left_out(queue, now + n / 10)) / 10


def test_one_that_does_not_answer_is_left_out_for_twice_as_long_each_time(in_vain: InVain) -> None:
    rests = [rest(in_vain, 1_000.0 * n, hung=True) for n in range(2_000)]

    assert rests[:6] == [1, 2, 4, 8, 16, 25.6]
    assert {*rests[6:]} == {25.6}


def test_one_that_is_missing_or_full_is_asked_each_second(in_vain: InVain) -> None:
    assert [rest(in_vain, 1_000.0 * n, hung=False) for n in range(9)] == [1] * 9


def test_what_hung_before_it_was_missing_begins_anew(in_vain: InVain) -> None:
    hung = [True, True, True, False, True, True]

    assert [rest(in_vain, 100.0 * n, hung=each) for n, each in enumerate(hung)] == [
        1, 2, 4, 1, 1, 2,
    ]  # fmt: skip


def test_of_those_who_ask_at_the_same_time_the_first_counts(in_vain: InVain) -> None:
    for _ in range(50):
        in_vain.note("a", 0.0, hung=True)

    assert rest(in_vain, 5.0, hung=True) == 2


def test_it_is_known_for_a_while_after_its_rest_and_not_for_hours(in_vain: InVain) -> None:
    in_vain.note("a", 0.0, hung=False)

    assert [in_vain.is_known("a", now) for now in (0.0, 4.9, 5.0, 36_000.0)] == [
        True, True, False, False,
    ]  # fmt: skip
    in_vain.note("a", 50.0, hung=False)
    in_vain.is_over("a")
    assert not in_vain.is_known("a", 50.0)


def test_no_more_are_known_at_a_time_and_the_next_is_once_one_is_forgotten(
    in_vain: InVain,
) -> None:
    for queue in ("a", "b", "c"):
        in_vain.note(queue, 0.0, hung=True)
    at_first = [in_vain.is_left_out(queue, 0.5) for queue in ("a", "b", "c")]
    in_vain.note("a", 4.0, hung=True)

    in_vain.note("c", 6.0, hung=True)

    assert at_first == [True, True, False]
    assert [in_vain.is_known(queue, 6.0) for queue in ("a", "b", "c")] == [True, False, True]


def test_of_no_more_trouble_is_told_than_there_is_room_for_until_some_has_passed() -> None:
    rarely = Rarely(most=2)
    minute = 60.0

    at_first = [rarely.is_to_tell(queue, 0.0) for queue in ("a", "b", "c")]
    lasting = [rarely.is_to_tell("a", now * minute) for now in range(1, 10)]
    later = [rarely.is_to_tell("c", now * minute) for now in (9, 10)]

    assert at_first == [True, True, False]
    assert lasting.count(True) == 1
    assert later == [False, True]


def test_it_is_told_ever_more_rarely() -> None:
    rarely = Rarely()
    assert not rarely

    told = [now for now in range(0, 4_000, 10) if rarely.is_to_tell("a", float(now))]

    assert [after - before for before, after in pairwise(told)] == [300, 600, 1_200]
    assert rarely
    rarely.is_over("a")
    assert not rarely
    assert rarely.is_to_tell("a", 4_000.0)

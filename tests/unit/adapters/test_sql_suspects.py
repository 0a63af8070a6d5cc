"""Whose fault a refusal is."""

from collections.abc import Iterable, Mapping

import pytest

from cronhare.adapters.sql.cooldown import MOST
from cronhare.adapters.sql.isolation.suspects import PROBE_EVERY, PROVEN_FOR, Suspects


class Seconds:
    """A stopwatch that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def ends(*ids: int) -> Mapping[int, str]:
    return of(ids, "end")


def of(ids: Iterable[int], kind: str) -> Mapping[int, str]:
    return dict.fromkeys(ids, kind)


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def suspects(seconds: Seconds) -> Suspects:
    return Suspects(seconds)


def test_what_is_refused_beside_others_is_set_apart(suspects: Suspects) -> None:
    assert set(suspects.judge(ends(1, 2), accepted=ends(9))) == {1, 2}


def test_what_is_refused_while_another_could_be_accepted_is_set_apart(suspects: Suspects) -> None:
    assert set(suspects.judge(ends(1, 2), accepted={}, could_another=["end"])) == {1, 2}


def test_a_single_one_is_set_apart_at_once_and_the_next_waits_for_neighbours(
    suspects: Suspects,
) -> None:
    first = suspects.judge(ends(1), accepted={})
    second = suspects.judge(ends(2), accepted={})
    suspects.judge({}, accepted=ends(9))

    third = suspects.judge(ends(2, 3), accepted={})
    suspects.judge({}, accepted=ends(9))

    assert (set(first), set(second), set(third)) == ({1}, set(), set())
    assert set(suspects.judge(ends(2, 3), accepted={})) == {2}


def test_what_was_accepted_itself_is_suspected_no_longer(suspects: Suspects) -> None:
    for _ in range(5):  # a rule for all comes and goes
        assert not suspects.judge(ends(1, 2), accepted={})
        suspects.judge({}, accepted=ends(1, 2))


def test_a_rule_for_all_that_comes_back_proves_nothing_of_who_was_not_asked_meanwhile(
    suspects: Suspects,
) -> None:
    suspects.judge(ends(1, 2), accepted={})
    suspects.judge({}, accepted=ends(9))

    assert not suspects.judge(ends(1, 2), accepted={})


def test_a_proof_is_forgotten(suspects: Suspects, seconds: Seconds) -> None:
    for _ in range(2):
        suspects.judge(ends(1, 2), accepted={})
        suspects.judge({}, accepted=ends(9))
    seconds.now = PROVEN_FOR

    assert not suspects.judge(ends(1, 2), accepted={})


def test_while_nothing_is_accepted_none_is_set_apart_but_for_a_probe(
    suspects: Suspects, seconds: Seconds
) -> None:
    at_first = suspects.judge(ends(1, 2, 3), accepted={})
    seconds.now = PROBE_EVERY - 1
    later = suspects.judge(ends(1, 2, 3), accepted={})
    seconds.now = PROBE_EVERY
    probe = suspects.judge(ends(1, 2, 3), accepted={})

    assert (set(at_first), set(later), set(probe)) == (set(), set(), {1})
    assert not suspects.judge(ends(2, 3), accepted={})


def test_it_does_not_remember_without_bound(suspects: Suspects) -> None:
    for _ in range(2):
        suspects.judge(ends(*range(2 * MOST)), accepted={})
        assert len(suspects) == MOST
        suspects.judge({}, accepted=ends(9))

    assert not suspects.judge(ends(7, 8), accepted={})


def test_of_another_kind_nobody_proves_anything(suspects: Suspects) -> None:
    failures, success = of([1, 2], "failure"), of([9], "success")

    assert not suspects.judge(failures, accepted=success, could_another=["success"])
    assert set(suspects.judge(failures, accepted=of([8], "failure"))) == {1, 2}


def test_what_is_accepted_as_another_kind_is_suspected_still(suspects: Suspects) -> None:
    for _ in range(2):
        suspects.judge(of([1, 2], "failure"), accepted=of([1], "mark"))
        suspects.judge({}, accepted=of([9], "failure"))

    assert set(suspects.judge(of([1, 2], "failure"), accepted={})) == {1, 2}


def test_of_several_kinds_that_are_refused_together_none_is_set_apart_at_once(
    suspects: Suspects, seconds: Seconds
) -> None:
    both = {1: "success", 2: "failure"}
    at_first = suspects.judge(both, accepted={})
    seconds.now = PROBE_EVERY

    assert not at_first
    assert set(suspects.judge(both, accepted={})) == {1, 2}


def test_the_only_one_of_its_kind_waits_for_no_other_kind(suspects: Suspects) -> None:
    assert set(suspects.judge({1: "failure"}, accepted={2: "success"})) == {1}
    assert not suspects.judge({3: "failure"}, accepted={4: "success"})

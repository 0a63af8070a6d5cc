"""What is asked again before anybody is set apart."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from pymysql.err import OperationalError
from sqlalchemy.exc import DBAPIError

from cronhare.adapters.sql.dialect import InDoubt, Locked
from cronhare.adapters.sql.dialects.mysql.errors import is_in_doubt, is_refused
from cronhare.adapters.sql.isolation.bisection import BatchResult, OnLocked
from cronhare.adapters.sql.isolation.refusals import bisect_and_judge
from cronhare.adapters.sql.isolation.suspects import Suspects
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable


def refusing(times: int) -> Callable[[Sequence[int]], BatchResult[str]]:
    """Refuse the number 2 so many times, and write all else."""
    left = times

    def ask(part: Sequence[int]) -> BatchResult[str]:
        nonlocal left
        if 2 in part and left:
            left -= 1
            raise LedgerRefused("no")
        return BatchResult(["written"] * len(part), part)

    return ask


@pytest.mark.parametrize(
    ("asked", "times", "answers"),
    [
        ([2], 1, ["written"]),
        ([2], 2, ["apart"]),
        ([1, 2, 3], 3, ["written"] * 3),  # all, two of them, it alone
        ([1, 2, 3], 4, ["written", "apart", "written"]),
    ],
)
def test_what_is_refused_alone_is_asked_once_more_before_it_is_set_apart(
    asked: list[int], times: int, answers: list[str]
) -> None:
    found = bisect_and_judge(
        asked,
        refusing(times),
        alone=lambda _one, _refusal: "apart",
        suspects=Suspects(),
        id_of=lambda one: one,
        kinds={},
        on_locked=OnLocked(lambda _: "busy"),
    )

    assert found == answers


@pytest.mark.parametrize("number", [1105, 1158, 1637, 3032, 3169, 9001, 9999])
def test_a_network_a_server_or_a_proxy_in_trouble_is_no_fault_of_a_row(number: int) -> None:
    assert not is_refused(_said(number), writing=True)


def test_a_number_that_a_trigger_makes_up_is_a_fault_of_its_row() -> None:
    assert is_refused(_said(30001), writing=True)


def _said(number: int) -> DBAPIError:
    return DBAPIError("INSERT", {}, OperationalError(number, "passing"))


class Seconds:
    """A stopwatch that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("minutes", "told"),
    [(0, ["of 2 none set apart"]), (1, ["of 2 none set apart", "of 2 1 set apart"])],
)
def test_the_log_says_once_a_minute_how_many_were_set_apart(
    caplog: pytest.LogCaptureFixture, minutes: int, told: list[str]
) -> None:
    seconds = Seconds()
    suspects = Suspects(seconds)

    def ask(_: Sequence[int]) -> BatchResult[str]:
        raise LedgerRefused("no")

    for now in [0, 1, 2, 60 * minutes]:
        seconds.now = now
        bisect_and_judge(
            [1, 2],
            ask,
            alone=lambda _one, _refusal: "apart",
            suspects=suspects,
            id_of=lambda one: one,
            kinds={},
            on_locked=OnLocked(lambda _: "busy"),
            unproven=lambda _: "later",
        )

    assert [line.partition("; ")[2] for line in caplog.messages] == [
        f"{each}, the others wait" for each in told
    ]


def test_what_is_in_doubt_is_told_once_a_minute_beside_what_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seconds = Seconds()
    suspects = Suspects(seconds)

    def ask(part: Sequence[int]) -> BatchResult[str]:
        if {1, 2}.intersection(part):
            raise LedgerRefused("no")
        if 3 in part:
            raise InDoubt("command denied")
        return BatchResult(["written"] * len(part), part)

    for now in range(20 * 60):
        seconds.now = now
        bisect_and_judge(
            [1, 2, 3, 4, 5],
            ask,
            alone=lambda _one, _refusal: "apart",
            suspects=suspects,
            id_of=lambda one: one,
            kinds={1: "archive", 2: "archive"},
            on_locked=OnLocked(lambda _: "busy"),
        )

    told = Counter(record.__dict__["action"] for record in caplog.records)
    assert told == {"ledger.refused": 20, "ledger.in-doubt": 20}


def test_beside_others_that_are_written_what_is_refused_with_all_of_its_kind_is_to_wait() -> None:
    answers = bisect_and_judge(
        [1, 2, 3, 4],
        _of_odd_ones,
        alone=lambda _one, _refusal: "apart",
        suspects=Suspects(),
        id_of=lambda one: one,
        kinds={1: "odd", 2: "even", 3: "odd", 4: "even"},
        on_locked=OnLocked(lambda _: "busy"),
    )

    assert answers == ["written", "busy", "written", "busy"]


def test_what_is_refused_and_held_at_once_takes_no_answer_from_its_neighbours() -> None:
    def held(_one: int, _refusal: LedgerRefused) -> str:
        raise Locked("somebody holds its row in the archive")

    answers = bisect_and_judge(
        [1, 2, 3],
        _of_odd_ones,
        alone=held,
        suspects=Suspects(),
        id_of=lambda one: one,
        kinds={},
        on_locked=OnLocked(lambda _: "busy"),
    )

    assert answers == ["written", "busy", "written"]


def _of_odd_ones(part: Sequence[int]) -> BatchResult[str]:
    if any(one % 2 == 0 for one in part):
        raise LedgerRefused("no")
    return BatchResult(["written"] * len(part), part)


def _denied(of: set[int], asked: list[int]) -> Callable[[Sequence[int]], BatchResult[str]]:
    """Write all but these, which look like an outage; *asked* gets the sizes of all parts."""

    def ask(part: Sequence[int]) -> BatchResult[str]:
        asked.append(len(part))
        if of.intersection(part):
            raise InDoubt("command denied")
        return BatchResult(["written"] * len(part), part)

    return ask


def _divided(
    ids: Sequence[int], ask: Callable[[Sequence[int]], BatchResult[str]], *, could: bool = False
) -> Sequence[str]:
    return bisect_and_judge(
        ids,
        ask,
        alone=lambda _one, _refusal: "apart",
        suspects=Suspects(),
        id_of=lambda one: one,
        kinds={},
        on_locked=OnLocked(lambda _: "busy"),
        could_another=lambda _: could,
    )


@pytest.mark.parametrize("denied", [{1}, {7, 8, 9}, {*range(1, 17)} - {5, 12}])
def test_what_looks_like_an_outage_beside_others_that_are_written_is_to_wait(
    denied: set[int],
) -> None:
    answers = _divided(range(1, 17), _denied(denied, []))

    assert answers == ["busy" if id_ in denied else "written" for id_ in range(1, 17)]


@pytest.mark.parametrize(("count", "parts"), [(1, 1), (2, 3), (4, 7), (1_000, 34)])
def test_an_outage_is_told_after_few_parts(count: int, parts: int) -> None:
    asked: list[int] = []

    with pytest.raises(LedgerUnavailable, match="command denied"):
        _divided(range(count), _denied({*range(count)}, asked))

    assert len(asked) == parts


def test_all_of_a_batch_wait_if_another_could_be_written() -> None:
    assert _divided(range(99), _denied({*range(99)}, []), could=True) == ["busy"] * 99


def test_a_ledger_that_is_lost_is_not_asked_for_less() -> None:
    asked: list[int] = []

    def ask(part: Sequence[int]) -> BatchResult[str]:
        asked.append(len(part))
        raise LedgerUnavailable("the connection was lost")

    with pytest.raises(LedgerUnavailable, match="lost"):
        _divided(range(9), ask)

    assert asked == [9]


def test_the_numbers_of_an_outage_may_be_a_triggers_but_for_a_lost_connection() -> None:
    assert is_in_doubt(_said(1142))
    assert not any(is_in_doubt(_said(number)) for number in (1213, 1205, 2006, 2013, 1927, 30001))

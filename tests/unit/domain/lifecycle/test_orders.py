from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, Archived
from cronhare.domain.lifecycle.orders import (
    FEWEST_JUDGED,
    STEP,
    Halt,
    Release,
    ReplayOrder,
    ReplayProgress,
    ReplayState,
    next_step,
)
from cronhare.domain.reading import Invalid
from tests.unit.executions import NOON, archived


def row(params: str = "{}", **changes: Any) -> Archived:  # noqa: ANN401
    return archived(params=params, **changes)


ACME = row('{"customer": "acme"}')


@pytest.mark.parametrize(
    ("key", "one", "other"),
    [
        (None, row(), row(schedule_name="other")),
        ("schedule", row(), row(task_name="send")),
        ("task", row(task_name="send"), row(task_name="send", task_id=26)),
        ("task", row(topic="orders.paid"), row(topic="orders.paid", task_id=26)),
        ("params.customer", ACME, row('{"customer": "acme", "n": 1}')),
        ("params.customer.id", row('{"customer": {"id": 42}}'), row('{"customer": {"id": "42"}}')),
        ("params.customer", row('{"client": "acme"}'), row('["customer"]')),
        ("params.a", row('{"a": ' + "[" * 100_000), row()),
    ],
)
def test_failures_have_in_common_what_the_key_names(
    key: str | None, one: Archived, other: Archived
) -> None:
    order = ReplayOrder(which=UNRESOLVED, key=key)

    assert order.key_of(one) == order.key_of(other)


@pytest.mark.parametrize(
    ("key", "one", "other"),
    [
        ("schedule", row(), row(schedule_name="other")),
        ("task", row(), row(task_id=26)),
        ("params.customer", ACME, row()),
        ("params.customer", row(f'{{"customer": "{"x" * 10_000}1"}}'), row('{"customer": "x"}')),
        ("params.customer", row('{"customer": "a\\u0000b"}'), row('{"customer": "a"}')),
    ],
)
def test_what_differs_has_nothing_in_common_however_long_or_odd(
    key: str, one: Archived, other: Archived
) -> None:
    order = ReplayOrder(which=UNRESOLVED, key=key)

    assert order.key_of(one) != order.key_of(other)
    assert order.key_of(one).isalnum()


def test_an_order_is_refused_with_all_its_faults() -> None:
    with pytest.raises(Invalid) as refused:
        ReplayOrder(
            which=EVERY_FAILURE,
            rate=float("nan"),
            jitter=-1,
            stop_at=1.5,
            at_once=0,
            canary=10**9,
            attempts=21,
            key="params..id",
            author="\x1b[2J",
        )

    assert [each.field for each in refused.value.faults] == [
        "which",
        "rate",
        "jitter",
        "stop_at",
        "at_once",
        "canary",
        "attempts",
        "author",
        "key",
    ]


SECOND = timedelta(seconds=1)


def order(**rules: Any) -> ReplayOrder:  # noqa: ANN401
    return ReplayOrder(which=UNRESOLVED, **{"jitter": 0.0, **rules})


def step(
    asked: ReplayOrder,
    *,
    next_at: datetime = NOON,
    now: datetime = NOON,
    fraction: Callable[[], float] = lambda: 0.0,
    **progress: Any,  # noqa: ANN401
) -> Release | Halt:
    return next_step(
        asked, ReplayProgress(**progress), next_at=next_at, now=now, random_fraction=fraction
    )


def released(decision: Release | Halt) -> Release:
    assert isinstance(decision, Release)
    return decision


def test_a_step_fills_the_coming_second_at_the_rate() -> None:
    decided = released(step(order(rate=4), waiting=100))

    assert [(begin - NOON) / SECOND for begin in decided.begins] == [0, 0.25, 0.5, 0.75]
    assert decided.next_at == NOON + SECOND


@pytest.mark.parametrize("rate", [0.5, 3, 40, 1000])
def test_whatever_chance_says_no_second_has_more_than_the_rate(rate: float) -> None:
    chance, now, next_at = Random(rate), NOON, NOON
    begins: list[datetime] = []
    for _ in range(50):
        decided = released(
            step(
                order(rate=rate, jitter=0.5),
                next_at=next_at,
                now=now,
                fraction=chance.random,
                waiting=10**6,
            )
        )
        begins += decided.begins
        next_at = decided.next_at
        now = max(next_at, now) + chance.random() * STEP * (chance.random() < 0.2)

    most = max(1, round(rate))
    assert len(begins) > most
    assert all(
        b - a >= SECOND - timedelta(microseconds=most)
        for a, b in zip(begins, begins[most:], strict=False)
    )


def test_the_canary_is_judged_before_any_other_begins() -> None:
    asked = order(rate=10, canary=3)

    first = released(step(asked, waiting=100))
    then = released(step(asked, waiting=97, released=3))
    halfway = released(step(asked, waiting=97, released=1, succeeded=2))
    after = released(step(asked, waiting=97, succeeded=3))

    assert len(first.begins) == 3
    assert (then.begins, halfway.begins) == ((), ())
    assert then.waits_for == "the canary: 3 of 3 are not judged yet"
    assert len(after.begins) == 10


def test_a_canary_that_goes_badly_stops_it_before_its_retries_are_over() -> None:
    decided = step(order(canary=3, stop_at=0.5), waiting=97, released=2, failing=2, succeeded=1)

    assert decided == Halt(ReplayState.STOPPED, "canary: 2 of 3 went badly, and at most 50 % may")


def test_it_stops_at_its_error_rate_once_enough_are_judged() -> None:
    asked = order(stop_at=0.2)

    early = step(asked, waiting=50, succeeded=5, failed=FEWEST_JUDGED - 6)
    at_it = step(asked, waiting=50, succeeded=8, failed=2)
    above = step(asked, waiting=50, succeeded=7, failed=2, failing=1, released=1)
    never = step(order(stop_at=None), waiting=50, failed=50)

    assert isinstance(early, Release)
    assert isinstance(at_it, Release)
    assert above == Halt(
        ReplayState.STOPPED, "error rate: 3 of 10 went badly, and at most 20 % may"
    )
    assert isinstance(never, Release)

from collections import Counter
from datetime import timedelta
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.retries.policy import CEILING_MS, Backoff, BackoffType, Jitter

CEILING = timedelta(milliseconds=CEILING_MS)

backoffs = st.builds(
    Backoff,
    type=st.sampled_from(BackoffType),
    delay=st.integers(1_000, 3_600_000),
    multiplier=st.floats(1, 100),
    max_delay=st.none() | st.integers(1_000, CEILING_MS),
    jitter=st.sampled_from(Jitter),
    sequence=st.lists(st.integers(1_000, 3_600_000), min_size=1, max_size=6).map(tuple),
)
retries = st.integers(1, 10_000)
chances = st.floats(0, 1, exclude_max=True)


def waits(backoff: Backoff, count: int) -> list[float]:
    return [backoff.wait(retry).total_seconds() for retry in range(1, count + 1)]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff(), [30, 60, 120]),
        (Backoff(delay=10_000, multiplier=1.5), [10, 15, 22.5, 33.75, 50.625]),
        (Backoff(delay=60_000, multiplier=3.0), [60, 180]),
        (Backoff(multiplier=1.0), [30, 30, 30]),
        (Backoff(multiplier=3.0), [30, 90, 270]),
        (
            Backoff(type=BackoffType.SEQUENCE, sequence=(30_000, 30_000, 60_000, 90_000, 150_000)),
            [30, 30, 60, 90, 150, 150, 150],
        ),
        (Backoff(delay=1_000), [1, 2, 4, 8, 16]),
        (Backoff(delay=2_000), [2, 4, 8, 16, 32]),
        (Backoff(delay=5_000), [5, 10, 20, 40]),
        (Backoff(type=BackoffType.FIXED, delay=60_000), [60, 60, 60]),
        (Backoff(type=BackoffType.FIXED, delay=10_000), [10, 10]),
        (Backoff(delay=30_000), [30, 60, 120, 240]),
        (Backoff(type=BackoffType.LINEAR, delay=600_000), [600, 1_200, 1_800]),
        (Backoff(type=BackoffType.LINEAR, delay=0), [0, 0]),
    ],
)
def test_the_series_of_the_original_come_out_exactly(
    backoff: Backoff, expected: list[float]
) -> None:
    assert waits(backoff, len(expected)) == expected


def test_the_default_waits_add_up_as_in_the_original() -> None:
    assert list(accumulate(waits(Backoff(), 3))) == [30, 90, 210]


def test_five_attempts_from_two_seconds_wait_thirty_seconds_in_all() -> None:
    assert sum(waits(Backoff(delay=2_000), 4)) == 2 * (2**4 - 1) == 30


def test_no_wait_is_longer_than_the_cap() -> None:
    capped = Backoff(delay=2_000, max_delay=300_000)

    assert waits(capped, 9)[6:] == [128, 256, 300]


def test_the_cap_holds_after_the_jitter_too() -> None:
    capped = Backoff(delay=300_000, max_delay=300_000, jitter=Jitter.PLUS)

    assert capped.wait(1, random_fraction=0.9) == timedelta(seconds=300)


@pytest.mark.parametrize(
    ("jitter", "least", "most"),
    [
        (Jitter.NONE, 10, 10),
        (Jitter.PLUS, 10, 11),
        (Jitter.BOTH, 9, 11),
        (Jitter.FULL, 0, 10),
    ],
)
def test_chance_spreads_a_wait_between_its_bounds(
    jitter: Jitter, least: float, most: float
) -> None:
    backoff = Backoff(delay=10_000, jitter=jitter)

    assert backoff.wait(1, random_fraction=0.0) == timedelta(seconds=least)
    assert backoff.wait(1, random_fraction=0.999_999_9) == timedelta(seconds=most)


def test_full_jitter_spreads_a_thousand_failures_to_500_a_second() -> None:
    backoff, random = Backoff(delay=2_000, jitter=Jitter.FULL), Random(2_026)

    times = [backoff.wait(1, random_fraction=random.random()).total_seconds() for _ in range(1_000)]

    per_second = Counter(int(time) for time in times)
    assert per_second.keys() <= {0, 1, 2}
    assert per_second[0] == pytest.approx(500, abs=50)
    assert len(set(times)) > 750


def test_half_a_millisecond_is_rounded_up() -> None:
    assert Backoff(delay=10_001, multiplier=1.5).wait(2) == timedelta(milliseconds=15_002)


@given(backoffs, retries, chances)
def test_a_wait_lies_between_nothing_and_its_cap(
    backoff: Backoff, retry: int, random_fraction: float
) -> None:
    wait = backoff.wait(retry, random_fraction=random_fraction)

    cap = CEILING if backoff.max_delay is None else timedelta(milliseconds=backoff.max_delay)
    assert timedelta(0) <= wait <= cap
    assert wait % timedelta(milliseconds=1) == timedelta(0)


@given(backoffs.filter(lambda b: b.type is not BackoffType.SEQUENCE), retries, chances)
def test_a_later_retry_never_waits_less(
    backoff: Backoff, retry: int, random_fraction: float
) -> None:
    assert backoff.wait(retry, random_fraction=random_fraction) <= backoff.wait(
        retry + 1, random_fraction=random_fraction
    )

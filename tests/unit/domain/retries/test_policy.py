import json
from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.retries.outcome import CrashPolicy
from cronhare.domain.retries.policy import (
    BACKOFFS,
    CEILING_MS,
    POLICIES,
    Backoff,
    BackoffType,
    Jitter,
    RetryPolicy,
    RetryPolicyInvalid,
    read_policy,
    write_policy,
)

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
        (Backoff(), [30, 60, 120, 240]),
        (Backoff(delay=10_000, multiplier=1.5), [10, 15, 22.5, 33.75, 50.625]),
        (Backoff(delay=60_000, multiplier=3.0), [60, 180]),
        (Backoff(multiplier=1.0), [30, 30, 30]),
        (
            Backoff(type=BackoffType.SEQUENCE, sequence=(30_000, 30_000, 60_000, 90_000, 150_000)),
            [30, 30, 60, 90, 150, 150, 150],
        ),
        (Backoff(delay=1_000), [1, 2, 4, 8, 16]),
        (Backoff(type=BackoffType.LINEAR, delay=0), [0, 0]),
        (Backoff(delay=2_000, max_delay=300_000), [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
        (Backoff(delay=10_001, multiplier=1.5), [10.001, 15.002]),  # half a millisecond is up
    ],
)
def test_the_series_of_the_original_come_out_exactly(
    backoff: Backoff, expected: list[float]
) -> None:
    assert waits(backoff, len(expected)) == expected


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
    capped = attrs.evolve(backoff, max_delay=10_000)
    assert capped.wait(1, random_fraction=0.999_999_9) == timedelta(seconds=10)


@given(backoffs, retries, chances)
def test_a_wait_lies_between_nothing_and_its_cap(
    backoff: Backoff, retry: int, random_fraction: float
) -> None:
    wait = backoff.wait(retry, random_fraction=random_fraction)

    cap = CEILING if backoff.max_delay is None else timedelta(milliseconds=backoff.max_delay)
    assert timedelta(0) <= wait <= cap
    assert wait % timedelta(milliseconds=1) == timedelta(0)


DEFAULT = RetryPolicy(attempts=7, backoff=Backoff(delay=7_000, jitter=Jitter.FULL))


def faults_of(value: object) -> tuple[str, ...]:
    with pytest.raises(RetryPolicyInvalid) as refused:
        read_policy(value, default=DEFAULT)
    return refused.value.faults


def waits_of(policy: RetryPolicy) -> list[float]:
    retries = range(1, policy.max_retries + 1)
    return [policy.backoff.wait(retry).total_seconds() for retry in retries]


def named(backoff: str) -> dict[str, object]:
    return {"attempts": 6, "backoff": backoff}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"attempts": 5, "backoff": {"type": "sequence", "delay": [30_000, 60_000]}},
            [30, 60, 60, 60],
        ),
        ("emails", [2, 4, 8]),
        ("webhooks", [5, 10, 20, 40, 80]),
        ("payments", [60, 60]),
        ("fast-failing", [10, 20, 40]),
        ("slow-recovering", [60, 90, 135, 202.5, 303.75]),
        ("lease-style", [600, 1_200, 1_800]),
        (named("aggressive"), [5, 10, 20, 40, 80]),
        (named("fixed"), [60, 60, 60, 60, 60]),
    ],
)
def test_the_original_policies_are_read(value: object, expected: list[float]) -> None:
    assert waits_of(read_policy(value, default=RetryPolicy())) == expected


def test_what_is_not_given_comes_from_the_default() -> None:
    assert read_policy({}, default=DEFAULT) == DEFAULT
    assert read_policy({"attempts": 2}, default=DEFAULT).backoff == DEFAULT.backoff
    assert read_policy({"backoff": {"delay": 1_000}}, default=DEFAULT) == RetryPolicy(
        attempts=7, backoff=Backoff(delay=1_000, jitter=Jitter.FULL)
    )


@pytest.mark.parametrize("name", BACKOFFS)
def test_no_strategy_of_the_original_waits_for_longer_than_five_minutes(name: str) -> None:
    policy = read_policy({"attempts": 20, "backoff": name}, default=DEFAULT)

    assert max(waits_of(policy)) == (60 if name == "fixed" else 300)


def test_linear_alone_retries_at_once() -> None:
    at_once = {"attempts": 4, "backoff": {"type": "linear", "delay": 0}}

    policy = read_policy(at_once, default=DEFAULT)

    assert waits_of(policy) == [0, 0, 0]
    assert read_policy(write_policy(policy), default=DEFAULT) == policy
    (fault,) = faults_of({"backoff": {"type": "linear", "delay": -1}})
    assert fault == "backoff.delay: -1 is not a whole number of milliseconds, 0-3,600,000"


def test_a_cap_that_is_shorter_than_a_nearer_delay_is_not_inherited() -> None:
    fixed = {"type": "fixed", "delay": 600_000}

    policy = read_policy({"backoff": fixed}, default=POLICIES["emails"])
    capped = read_policy({"backoff": {**fixed, "max_delay": 300_000}}, default=POLICIES["emails"])

    assert waits_of(policy) == [600, 600, 600]
    assert waits_of(capped) == [300, 300, 300]


def test_a_refusal_carries_the_original_code() -> None:
    with pytest.raises(RetryPolicyInvalid, match=r"^SCHEDULE_RETRY_POLICY_INVALID: ") as refused:
        read_policy({"attempts": 0}, default=DEFAULT)

    assert refused.value.code == "SCHEDULE_RETRY_POLICY_INVALID"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (3, "a table"),
        ({"attempts": 21}, "attempts: 21 is not a whole number, 1-20"),
        (
            {"backoff": {"delay": 999}},
            "backoff.delay: 999 is not a whole number of milliseconds, 1,000-3,600,000",
        ),
        ("emial", "no preset is called 'emial'; there are emails, webhooks"),
        ({"backoff": "slow"}, "backoff: none is called 'slow'; there are standard, conservative"),
        ({"tries": 3}, "tries: is not known here"),
        ({"backoff": {"jitter": "some"}}, "backoff.jitter: 'some' is not one of"),
        ({"backoff": {"multiplier": float("nan")}}, "multiplier: nan is not a number, 1-100"),
        ({"backoff": {"type": "sequence"}}, "backoff.delay: is missing: one or more delays"),
        (
            {"backoff": {"type": "sequence", "delay": [5]}},
            "each a whole number of milliseconds, 1,000-3,600,000",
        ),
        ({"crashes": {"timeouts": 1}}, "crashes.timeouts: 1 is not true or false"),
    ],
)
def test_a_policy_that_cannot_be_says_what_is_wrong(value: object, fault: str) -> None:
    (only,) = faults_of(value)

    assert fault in only


def test_a_policy_may_say_what_makes_a_poison_pill_of_its_runs() -> None:
    policy = read_policy({"crashes": {"limit": 5, "timeouts": False}}, default=DEFAULT)

    assert policy.crashes == CrashPolicy(limit=5, timeouts=False)
    assert read_policy(write_policy(policy), default=DEFAULT) == policy
    assert read_policy({"attempts": 2}, default=policy).crashes == policy.crashes


delays = st.integers(1_000, 3_600_000)
tables = st.fixed_dictionaries(
    {},
    optional={
        "attempts": st.integers(1, 20),
        "backoff": st.fixed_dictionaries(
            {},
            optional={
                "delay": delays,
                "type": st.sampled_from(["exponential", "fixed", "linear"]),
                "multiplier": st.floats(1, 100),
                "max_delay": st.none() | st.integers(1_000, CEILING_MS),
                "jitter": st.sampled_from([jitter.value for jitter in Jitter]),
            },
        )
        | st.fixed_dictionaries(
            {"type": st.just("sequence"), "delay": st.lists(delays, min_size=1, max_size=5)}
        ),
    },
)


@given(tables)
def test_what_was_read_can_be_written_as_json_and_read_whatever_the_default(
    table: dict[str, object],
) -> None:
    policy = read_policy(table, default=DEFAULT)

    written = json.loads(json.dumps(write_policy(policy)))

    assert read_policy(written, default=DEFAULT) == policy
    assert read_policy(written, default=RetryPolicy()) == policy

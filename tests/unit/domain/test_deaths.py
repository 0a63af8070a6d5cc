from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.deaths import MOST, deaths_of

MAIN = "cron_scheduler"
RETRY = "cron_scheduler_retry"


def as_the_seeds_say(count: int) -> dict[str, Any]:
    """S0's entry: not what a broker writes, but what a foreign publisher may send."""
    return {
        "count": count,
        "reason": "rejected",
        "queue": MAIN,
        "time": "2025-12-12T12:01:33.000Z",
        "exchange": "cron_dlx",
        "routing-keys": ["retry"],
        "original-expiration": None,
    }


def as_the_broker_writes(trips: int) -> list[dict[str, Any]]:
    """What RabbitMQ 3.10 shows after so many trips through the retry queue, newest first."""
    time = datetime(2025, 12, 12, 12, 0, tzinfo=UTC)
    return [
        {
            "queue": RETRY,
            "reason": "expired",
            "count": trips,
            "exchange": "cron_dlx",
            "routing-keys": ["retry"],
            "time": time,
        },
        {
            "queue": MAIN,
            "reason": "rejected",
            "count": trips,
            "exchange": "",
            "routing-keys": [MAIN],
            "time": time,
        },
    ]


@pytest.mark.parametrize("headers", [{}, {"x-death": []}, {"x-death": None}])
def test_a_message_without_deaths_has_died_0_times(headers: dict[str, object]) -> None:
    assert deaths_of(headers) == 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_seeds_header_is_counted(count: int) -> None:
    assert deaths_of({"x-death": [as_the_seeds_say(count)]}) == count


@pytest.mark.parametrize("trips", [1, 2, 3])
def test_the_brokers_header_is_counted_by_its_rejections(trips: int) -> None:
    assert deaths_of({"x-death": as_the_broker_writes(trips)}) == trips


def test_expiries_of_the_delay_lanes_are_no_deaths() -> None:
    lanes = [{"queue": f"{RETRY}.{k:02}", "reason": "expired", "count": 1} for k in range(16)]

    assert deaths_of({"x-death": lanes}) == 0


def test_rejections_count_whichever_task_queue_they_happened_in() -> None:
    named = {"queue": "cron_scheduler.reports", "reason": "rejected", "count": 1}

    assert deaths_of({"x-death": [named, *as_the_broker_writes(2)]}) == 3


def test_a_forged_count_is_bounded() -> None:
    forged = [as_the_seeds_say(2**63), as_the_seeds_say(2**63)]

    assert deaths_of({"cron-deaths": 2**63, "x-death": forged}) == MOST


def test_our_own_count_and_the_rejections_of_others_add_up() -> None:
    headers = {"cron-deaths": 2, "x-death": as_the_broker_writes(1)}

    assert deaths_of(headers) == 3


@pytest.mark.parametrize("count", [None, "2", 1.5, -1, True, [], {}])
def test_a_count_that_is_none_counts_0(count: object) -> None:
    entry = {"queue": MAIN, "reason": "rejected", "count": count}

    assert deaths_of({"cron-deaths": count, "x-death": [entry]}) == 0


@pytest.mark.parametrize("x_death", ["text", 3, {"count": 2}, [None], ["text"], [[]], [{}]])
def test_a_malformed_header_counts_0(x_death: object) -> None:
    assert deaths_of({"x-death": x_death}) == 0


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["cron-deaths", "x-death", "other"]), json))
def test_no_header_ever_raises(headers: dict[str, object]) -> None:
    assert deaths_of(headers) >= 0

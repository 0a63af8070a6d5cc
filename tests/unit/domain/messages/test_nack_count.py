from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.messages import MOST_NACKS, Nacks, nacks_of, total_nacks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MAIN = "cron_scheduler"
RETRY = "cron_scheduler_retry"


def as_the_original_says(count: int) -> dict[str, Any]:
    """Write the entry of S0.4 in docs/compatibility.md, as a foreign publisher may send it."""
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
    assert total_nacks(nacks_of(headers)) == 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_original_header_is_counted(count: int) -> None:
    assert total_nacks(nacks_of({"x-death": [as_the_original_says(count)]})) == count


@pytest.mark.parametrize("trips", [1, 2, 3])
def test_the_brokers_header_is_counted_by_its_rejections(trips: int) -> None:
    assert total_nacks(nacks_of({"x-death": as_the_broker_writes(trips)})) == trips


def test_expiries_of_the_delay_lanes_are_no_deaths() -> None:
    lanes = [{"queue": f"{RETRY}.{k:02}", "reason": "expired", "count": 1} for k in range(16)]

    assert total_nacks(nacks_of({"x-death": lanes})) == 0


def test_rejections_count_whichever_task_queue_they_happened_in() -> None:
    named = {"queue": "cron_scheduler.reports", "reason": "rejected", "count": 1}

    nacks = nacks_of({"x-death": [named, *as_the_broker_writes(2)]})

    assert nacks == {"cron_scheduler.reports": 1, MAIN: 2}
    assert total_nacks(nacks) == 3


def test_a_forged_count_is_bounded() -> None:
    forged = [as_the_original_says(2**63), as_the_original_says(2**63)]

    assert total_nacks(nacks_of({"x-death": forged})) == MOST_NACKS


def test_our_own_header_says_nothing() -> None:
    assert total_nacks(nacks_of({"cron-deaths": 1_000_000})) == 0


@pytest.mark.parametrize(
    ("seconds", "believed"), [(-60, 0), (0, 0), (14, 0), (15, 1), (44, 1), (45, 2), (10**6, 9)]
)
def test_nacks_are_believed_as_far_as_there_was_time_for_them(seconds: int, believed: int) -> None:
    nacks = Nacks(by_queue={MAIN: 9}, trip=timedelta(seconds=30))

    assert nacks.since(NOON, queue=MAIN, now=NOON + timedelta(seconds=seconds)) == believed


def test_nacks_of_what_was_never_published_are_not_believed() -> None:
    assert (
        Nacks(by_queue={MAIN: 9}, trip=timedelta(seconds=30)).since(None, queue=MAIN, now=NOON) == 0
    )


@pytest.mark.parametrize("count", [None, "2", 1.5, -1, True, [], {}])
def test_a_count_that_is_none_counts_0(count: object) -> None:
    entry = {"queue": MAIN, "reason": "rejected", "count": count}

    assert total_nacks(nacks_of({"x-death": [entry]})) == 0


@pytest.mark.parametrize("x_death", ["text", 3, {"count": 2}, [None], ["text"], [[]], [{}]])
def test_a_malformed_header_counts_0(x_death: object) -> None:
    assert total_nacks(nacks_of({"x-death": x_death})) == 0


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["cron-deaths", "x-death", "other"]), json))
def test_no_header_ever_raises(headers: dict[str, object]) -> None:
    assert total_nacks(nacks_of(headers)) >= 0

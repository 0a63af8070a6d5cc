from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.topology import (
    LANE_UNIT,
    LANES,
    LONGEST_LANE_DELAY,
    LONGEST_QUEUE_NAME,
    Binding,
    Exchange,
    FairQueueing,
    Queue,
    ToQueue,
    lane_exchange,
    route,
    topology,
)

RETRY_DELAY = timedelta(seconds=30)


def test_the_original_queues_and_roads_are_declared() -> None:
    ours = topology(retry_delay=RETRY_DELAY, queues=["cron_scheduler.reports"])

    assert {
        Queue("cron_scheduler.reports", None, "cron_dlx", "retry"),
        Queue("cron_scheduler_retry", RETRY_DELAY, "", "cron_scheduler"),
        Queue("cron_scheduler_failed"),
        Queue("cron_scheduler_quarantine"),
    } <= {*ours.queues}
    assert Exchange("cron_dlx", "direct") in ours.exchanges
    words = ("retry", "failed", "quarantine")
    roads = {Binding("cron_dlx", f"cron_scheduler_{word}", word) for word in words}
    assert roads <= {*ours.bindings}


@pytest.mark.parametrize(
    "name",
    [
        "cron_scheduler_retry",
        "cron_scheduler_retry.07",
        "cron_scheduler_failed",
        "cron_scheduler_quarantine",
        "cron_scheduler_waiting",
        "",
        "reports.*",
        "#",
        "q" * (LONGEST_QUEUE_NAME + 1),
    ],
)
def test_a_task_queue_takes_neither_our_names_nor_wildcards_nor_more_than_a_key_holds(
    name: str,
) -> None:
    with pytest.raises(ValueError, match="queue"):
        topology(retry_delay=RETRY_DELAY, queues=[name])


def test_the_original_first_delay_is_lanes_eight_five_three_and_two() -> None:
    exchange, key = route(ToQueue("cron_scheduler", timedelta(seconds=30)))

    assert exchange == "cron_delay.08"
    assert key == "0.0.0.0.0.0.0.1.0.0.1.0.1.1.0.0.cron_scheduler"


@given(st.timedeltas(timedelta(microseconds=1), LONGEST_LANE_DELAY))
def test_the_lanes_of_a_delay_add_up_to_it_rounded_up_to_a_unit(delay: timedelta) -> None:
    exchange, key = route(ToQueue("q", delay))

    bits = key.split(".")[:LANES]
    lanes = [LANES - 1 - place for place, bit in enumerate(bits) if bit == "1"]
    waits = sum((LANE_UNIT * 2**lane for lane in lanes), timedelta(0))
    assert timedelta(0) <= waits - delay < LANE_UNIT
    assert exchange == lane_exchange(max(lanes))


def test_a_delay_that_the_lanes_cannot_carry_is_refused() -> None:
    too_long = LONGEST_LANE_DELAY + timedelta(microseconds=1)

    assert route(ToQueue("q", LONGEST_LANE_DELAY)) == ("cron_delay.15", "1." * LANES + "q")
    with pytest.raises(ValueError, match="does not fit the lanes"):
        route(ToQueue("q", too_long))


def served(fair: FairQueueing, *queues: str, times: int) -> list[str]:
    """Serve queues that always have something."""
    order = list[str]()
    for _ in range(times):
        order.append(fair.order(queues)[0])
        fair.serve(order[-1])
    return order


def test_a_queue_that_was_empty_comes_next_and_has_saved_nothing_up() -> None:
    fair = FairQueueing({"reports": 2})
    served(fair, "reports", times=1_000)

    order = served(fair, "reports", "mail", times=31)

    assert order[0] == "mail"
    assert 10 <= order.count("mail") <= 12


weights = st.dictionaries(
    st.sampled_from("abcde"), st.integers(min_value=1, max_value=100), min_size=1
)


@given(weights)
def test_shares_are_as_the_weights(weights: Mapping[str, int]) -> None:
    """Between two queues that always have something, neither is ahead by more than one item."""
    order = served(FairQueueing(weights), *weights, times=5 * sum(weights.values()))

    for at in range(1, len(order)):
        shares = {name: order[:at].count(name) / weights[name] for name in weights}
        fastest, slowest = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
        ahead = shares[fastest] - shares[slowest]
        assert ahead <= 1 / weights[fastest] + 1 / weights[slowest] + 1e-9
        if at > 200:
            break

from collections import Counter
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
    ToFailed,
    ToQuarantine,
    ToQueue,
    lane_exchange,
    route,
    topology,
)

RETRY_DELAY = timedelta(seconds=30)
OURS = topology(retry_delay=RETRY_DELAY, queues=["cron_scheduler.reports"])
QUEUES = {queue.name: queue for queue in OURS.queues}
EXCHANGES = {exchange.name: exchange for exchange in OURS.exchanges}


@pytest.mark.parametrize("name", ["cron_scheduler", "cron_scheduler.reports"])
def test_a_task_queue_hands_what_is_nacked_to_the_dead_letter_exchange(name: str) -> None:
    queue = QUEUES[name]

    assert queue == Queue(name=name, dead_letter_exchange="cron_dlx", dead_letter_key="retry")


def test_the_retry_queue_leads_back_to_the_main_queue_after_its_delay() -> None:
    queue = QUEUES["cron_scheduler_retry"]

    assert queue == Queue(
        name="cron_scheduler_retry",
        ttl=RETRY_DELAY,
        dead_letter_exchange="",
        dead_letter_key="cron_scheduler",
    )


@pytest.mark.parametrize(
    "name", ["cron_scheduler_failed", "cron_scheduler_quarantine", "cron_scheduler_waiting"]
)
def test_what_failed_for_good_or_waits_stays_where_it_is(name: str) -> None:
    queue = QUEUES[name]

    assert queue == Queue(name=name)


@pytest.mark.parametrize("word", ["retry", "failed", "quarantine"])
def test_the_dead_letter_exchange_is_direct_and_knows_three_roads(word: str) -> None:
    road = Binding(source="cron_dlx", target=f"cron_scheduler_{word}", key=word)

    assert EXCHANGES["cron_dlx"] == Exchange(name="cron_dlx", kind="direct")
    assert road in OURS.bindings


def test_strays_of_the_last_exchange_end_in_quarantine() -> None:
    alternate = EXCHANGES["cron_delivery"].alternate

    assert alternate is not None
    assert EXCHANGES[alternate].kind == "fanout"
    assert Binding(source=alternate, target="cron_scheduler_quarantine", key="") in OURS.bindings


def test_everything_that_is_named_is_declared() -> None:
    ends = {(road.target, road.to_exchange) for road in OURS.bindings}
    onward = {queue.dead_letter_exchange for queue in OURS.queues} - {None, ""}
    alternates = {exchange.alternate for exchange in OURS.exchanges} - {None}

    assert {road.source for road in OURS.bindings} | onward | alternates <= EXCHANGES.keys()
    assert {name for name, is_exchange in ends if is_exchange} <= EXCHANGES.keys()
    assert {name for name, is_exchange in ends if not is_exchange} <= QUEUES.keys()


def test_every_name_is_declared_once_however_often_it_is_asked_for() -> None:
    asked = ["cron_scheduler", "cron_scheduler.reports", "cron_scheduler.reports"]

    assert topology(retry_delay=RETRY_DELAY, queues=asked) == OURS


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


def test_without_a_delay_a_message_goes_straight_to_its_queue() -> None:
    assert route(ToQueue("cron_scheduler.reports")) == ("", "cron_scheduler.reports")
    assert route(ToQueue(delay=timedelta(seconds=-1))) == ("", "cron_scheduler")


def test_what_failed_and_what_is_quarantined_go_through_the_dead_letter_exchange() -> None:
    assert route(ToFailed()) == ("cron_dlx", "failed")
    assert route(ToQuarantine()) == ("cron_dlx", "quarantine")


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


def test_the_heavier_one_is_served_more_often_and_the_other_one_in_between() -> None:
    order = served(FairQueueing({"reports": 3}), "mail", "reports", times=40)

    assert Counter(order) == {"reports": 30, "mail": 10}
    assert all("mail" in order[at : at + 4] for at in range(37))


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

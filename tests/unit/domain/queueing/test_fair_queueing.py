"""Which of several queues is served next."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.topology import FairQueueing


def served(fair: FairQueueing, *queues: str, times: int) -> list[str]:
    """Serve queues that always have something."""
    order = list[str]()
    for _ in range(times):
        order.append(fair.next(queues))
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


def test_a_queue_that_was_alone_owes_the_others_nothing_for_it() -> None:
    fair = FairQueueing({"reports": 3})
    served(fair, "mail", times=1_000)

    assert "mail" in served(fair, "reports", "mail", times=5)


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

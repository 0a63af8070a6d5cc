"""Reading the queues of a process, with their weights."""

import pytest

from cronhare.domain.topology import ServedQueues


def test_a_queue_has_the_weight_behind_its_last_colon_and_else_one() -> None:
    served = ServedQueues.parse(["reports:3", "mail", "at:night:100", "mail", "mail:1"])

    assert served.weights == {"reports": 3, "mail": 1, "at:night": 100}
    assert ServedQueues.parse(served.texts) == served


def test_other_queues_have_a_weight_of_one() -> None:
    assert ServedQueues.parse(["reports:3", "mail:2"]).of(["cron_scheduler", "reports"]) == {
        "cron_scheduler": 1,
        "reports": 3,
    }


@pytest.mark.parametrize(
    "text", ["a:0", "a:101", "a:", "a:+1", "a: 1", "a:1.5", "a:٣", "a:1e1", "a:99999999999", "a:b"]
)
def test_a_weight_is_a_whole_number_from_1_to_100(text: str) -> None:
    with pytest.raises(ValueError, match="a whole number from 1 to 100"):
        ServedQueues.parse([text])


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="weight") as caught:
        ServedQueues.parse(["a:101", "reports:3", "b*", "reports:4", "cron_scheduler_failed:2"])

    assert str(caught.value).split("; ") == [
        "'a:101': behind its last colon a queue has its weight, a whole number from 1 to 100",
        "'b*' cannot name a queue: it is empty or has a wildcard (* or #)",
        "reports has two weights, 3 and 4",
        "cron_scheduler_failed is one of the system's own queues",
        "name a task queue otherwise",
    ]

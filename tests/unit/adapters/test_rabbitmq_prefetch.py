"""Counting deliveries in hand over all queues of a consumer."""

from cronhare.adapters.rabbitmq.consumer.prefetch import PrefetchLimiter
from cronhare.domain.queueing.fair_queueing import FairQueueing
from cronhare.ports.broker import Delivery, Message


def delivery(number: int, queue: str = "q") -> Delivery:
    message = Message(body=b"%d" % number)
    return Delivery(message=message, queue=queue, redelivered=False, tag=number)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def limiter(limit: int) -> tuple[PrefetchLimiter, list[object], Clock]:
    handed: list[object] = []
    clock = Clock()
    fair = FairQueueing({"heavy": 2})
    return PrefetchLimiter(limit, lambda one: handed.append(one.tag), clock, fair), handed, clock


def test_the_surplus_is_held_back_and_handed_over_in_order_as_places_become_free() -> None:
    prefetch, handed, _ = limiter(1)
    for number in (1, 2, 3):
        prefetch.offer(delivery(number))
    before = list(handed)

    prefetch.settle(1)
    prefetch.settle(2)

    assert (before, handed) == ([1], [1, 2, 3])


def test_of_the_surplus_queues_are_served_by_their_weights_each_in_its_order() -> None:
    prefetch, handed, clock = limiter(1)
    for number in range(1, 5):
        prefetch.offer(delivery(number))
        clock.now += 1
    for number in range(11, 17):
        prefetch.offer(delivery(number, "heavy"))
        clock.now += 1

    for _ in range(5):
        prefetch.settle(handed[-1])
    since, back = prefetch.held_since, [one.tag for one in prefetch.take_back()]

    assert handed == [1, 11, 12, 2, 13, 14]
    assert (since, back) == (2.0, [3, 4, 15, 16])


def test_it_tells_since_when_the_oldest_has_been_waiting() -> None:
    prefetch, _, clock = limiter(1)
    prefetch.offer(delivery(1))
    nobody_waits = prefetch.held_since
    for clock.now, number in ((5.0, 2), (6.0, 3)):
        prefetch.offer(delivery(number))

    first = prefetch.held_since
    prefetch.settle(1)

    assert (nobody_waits, first, prefetch.held_since) == (None, 5.0, 6.0)


def test_what_is_taken_back_does_not_come_any_more() -> None:
    prefetch, handed, _ = limiter(1)
    for number in (1, 2, 3):
        prefetch.offer(delivery(number))

    back = [one.tag for one in prefetch.take_back()]
    prefetch.settle(1)

    assert (back, handed, prefetch.has_room) == ([2, 3], [1], True)

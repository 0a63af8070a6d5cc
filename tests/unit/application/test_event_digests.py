"""A target that is told of many events at once."""

from collections.abc import Sequence
from datetime import timedelta

import attrs

from cronhare.domain.events.outbox import OutboxRow, OutboxState
from cronhare.domain.events.targets import Target
from cronhare.ports.events import NotDelivered
from tests.trial_event import trial
from tests.unit.application.test_events import (
    MINUTE,
    SHOP,
    Notifier,
    Outpost,
    house,
    subscriptions,
    target,
)


def outpost(notifier: Notifier | None = None) -> Outpost:
    people = attrs.evolve(target("ops"), digest=3)
    return Outpost(house(), subscriptions(people), notifier or Notifier())


def arrive(post: Outpost, *keys: int) -> None:
    now = post.house.now
    post.store.add(
        [
            OutboxRow.of(trial("ops", now=now, id_=str(key)), "ops", source=SHOP, now=now)
            for key in keys
        ],
        now=now,
    )


async def told(post: Outpost, *, rounds: int = 8) -> Sequence[str]:
    post.notifier.told.clear()
    for _ in range(rounds):
        await post.turn()
        await post.settled()
    return [event for _, event in post.notifier.told]


async def test_a_few_are_told_each_and_those_beyond_them_together_a_minute_later() -> None:
    post = outpost()
    arrive(post, 1, 2, 3)
    assert await told(post) == ["failed"] * 3

    arrive(post, *range(4, 104))
    at_once = await told(post)
    post.house.clock.advance(MINUTE)
    later = await told(post)
    arrive(post, 200)
    held = await told(post)
    post.house.clock.advance(MINUTE)
    alone = await told(post)

    assert (at_once, later, held, alone) == ([], ["digest"], [], ["failed"])
    states = {row.state for row in post.store.rows(limit=1_000)}
    assert states == {OutboxState.DELIVERED.value}


async def test_many_that_come_at_once_are_one_message_and_none_is_lost_when_it_fails() -> None:
    heard = list[OutboxRow]()

    def hears(_: Target, event: OutboxRow) -> None:
        heard.append(event)
        if len(heard) == 1:
            raise NotDelivered("not now")

    post = outpost(Notifier(hears))
    arrive(post, *range(50))
    first = await told(post)
    post.house.clock.advance(timedelta(minutes=2))
    again = await told(post)

    assert (first, again) == (["digest"], ["digest"])
    assert [each.payload.count("nothing has failed") for each in heard] == [5, 5]
    assert all('"count":50' in each.payload for each in heard)
    states = [row.state for row in post.store.rows(limit=1_000)]
    assert states == [OutboxState.DELIVERED.value] * 50

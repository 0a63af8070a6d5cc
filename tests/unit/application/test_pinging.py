"""Services that are pinged of a schedule's runs."""

from datetime import timedelta

import attrs
import msgspec

from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.outbox import LOOKS_BACK
from cronhare.domain.events.targets import ByPing, Subscriptions, Target
from tests.unit.application.endings import SUCCESS, always
from tests.unit.application.test_events import (
    MINUTE,
    Outpost,
    failed,
    house,
    subscriptions,
)

PING = Target(
    name="schedules.report:ping",
    means=ByPing(address=WebAddress.parse("https://hc.example/uuid")),
    events=frozenset(),
)


def pinged() -> Subscriptions:
    return attrs.evolve(subscriptions(), pings={"report": PING})


def paths(post: Outpost) -> list[str]:
    rows = sorted(post.store.rows(limit=100), key=lambda row: row.id)
    return [msgspec.json.decode(row.payload)["data"]["path"] for row in rows]


async def test_a_run_that_ends_well_and_one_that_fails_are_told_once_each() -> None:
    good = Outpost(house(always(SUCCESS)), pinged())
    bad = Outpost(house(), pinged())
    for post in (good, bad):
        await failed(post.house)
        for _ in range(3):
            await post.turn()
            post.house.clock.advance(timedelta(seconds=30))

    assert paths(good) == [""]
    assert paths(bad) == ["/1"]
    assert good.notifier.told == [(PING.name, "ping")]
    [row] = bad.store.rows(limit=9)
    assert "boom" in msgspec.json.decode(row.payload)["data"]["body"]


async def test_what_ended_long_ago_is_told_to_nobody() -> None:
    post = Outpost(house(always(SUCCESS)), pinged())
    await failed(post.house)
    post.house.clock.advance(LOOKS_BACK + MINUTE)

    await post.turn()

    assert paths(post) == []

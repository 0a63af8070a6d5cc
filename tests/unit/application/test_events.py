"""Who is told of what, and what becomes of it while targets or the ledger are away."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import attrs
import pytest

from cronhare.adapters.sql.events.alerts import SqlAlertStore
from cronhare.adapters.sql.events.outbox import SqlEventStore
from cronhare.application.events import announce, relay
from cronhare.application.events.alerting import AlertWatch
from cronhare.application.events.announce import Announcer
from cronhare.application.events.relay import OutboxRelay
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.outbox import MOST_TRIES, OutboxRow, OutboxState, RunEnd
from cronhare.domain.events.targets import (
    BAD_ENDS,
    ByCommand,
    ByWebhook,
    EventKind,
    NotificationSettings,
    Subscribers,
    Subscriptions,
    Target,
)
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.ports.events import MailContent, NotDelivered
from tests.trial_event import trial
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import always, failure
from tests.unit.application.house import REPORT, House, Inline
from tests.unit.application.outages import may_be_away

SHOP = "shop"
MINUTE = timedelta(minutes=1)
FAILS = always(failure("boom"))
TASK = attrs.evolve(REPORT, source=SHOP)

EVERY_MINUTE = ScheduleDraft(
    name="report", task=TASK.ref, task_name=TASK.name, schedule="* * * * *"
)

Hears = Callable[[Target, OutboxRow], None]


def target(name: str, *events: EventKind) -> Target:
    means = ByCommand(command=("true",))
    return Target(name=name, means=means, events=frozenset(events) or BAD_ENDS)


@attrs.define
class Notifier:
    """Notes who is told, and lets a test decide what comes of it."""

    hears: Hears = lambda _target, _event: None
    told: list[tuple[str, str]] = attrs.field(factory=list)
    hangs: set[str] = attrs.field(factory=set)

    async def notify(
        self,
        target: Target,
        event: OutboxRow,
        mail: MailContent | None = None,  # noqa: ARG002 - the port's
        end: RunEnd | None = None,  # noqa: ARG002 - the port's
    ) -> None:
        self.told.append((target.name, event.event))
        if target.name in self.hangs:
            await asyncio.Event().wait()
        self.hears(target, event)

    async def close(self) -> None: ...


@attrs.define
class Outpost:
    """A worker with a jobs file, beside a house whose tasks fail or succeed."""

    house: House
    subscriptions: Subscriptions
    notifier: Notifier = attrs.field(factory=Notifier)
    node: str = "ant"
    only_after: timedelta = timedelta(0)
    store: SqlEventStore = attrs.field(init=False)
    alerts: AlertWatch = attrs.field(init=False)
    announcer: Announcer = attrs.field(init=False)
    outbox_relay: OutboxRelay = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        store = SqlEventStore(self.house.engine, self.house.clock)
        self.store = may_be_away(store, self.house.outage, "settle", "due")
        subscribers, clock = Subscribers(self.subscriptions), self.house.clock
        self.alerts = AlertWatch(
            alerts=SqlAlertStore(self.house.engine, self.house.clock),
            events=self.store,
            judge=self.house.container.ledger_judge(),
            now=clock.now,
        )
        self.announcer = Announcer(
            store=self.store, alerts=self.alerts, subscribers=subscribers, clock=clock
        )
        self.outbox_relay = OutboxRelay(
            store=self.store,
            notifier=self.notifier,
            subscribers=subscribers,
            clock=clock,
            node=self.node,
            executor=Inline(),
            only_after=self.only_after,
        )

    async def turn(self) -> None:
        """Announce and tell what there is now."""
        self.announcer.round()
        await self.outbox_relay.round()
        for _ in range(10):
            await asyncio.sleep(0)

    async def settled(self) -> None:
        """Wait until what is under way has come to its end."""
        while under_way := self.outbox_relay._under_way:
            await asyncio.wait(under_way)

    def states(self) -> dict[str, str]:
        return {row.target: row.state for row in self.store.rows(limit=100)}


def subscriptions(*targets: Target, **settings: Any) -> Subscriptions:  # noqa: ANN401
    named = NotificationSettings(notify=tuple(each.name for each in targets), **settings)
    return Subscriptions(
        source=SHOP,
        targets={each.name: each for each in targets},
        schedules={"report": named},
        tasks={TASK.name: NotificationSettings()},
        refs={TASK.ref: TASK.name},
    )


def house(attempts: int = 1) -> House:
    made = House(policy=RetryPolicy(attempts=attempts), tasks=[TASK], script=FAILS)
    made.schedules.save([EVERY_MINUTE], source=SHOP, now=made.now)
    return made


async def failed(made: House) -> None:
    made.dispatcher.tick(made.now)
    await made.open()
    await made.turn(MINUTE)


async def test_a_failure_is_told_to_each_who_wants_it_and_to_no_other() -> None:
    made = house()
    wants = [target("ops"), target("log"), target("late", EventKind.LATE)]
    outpost = Outpost(made, subscriptions(*wants, on_failure=target("cmd")))
    await failed(made)

    await outpost.turn()
    await outpost.turn()

    assert sorted(outpost.notifier.told) == [
        ("cmd", "failed"),
        ("log", "failed"),
        ("ops", "failed"),
    ]
    assert set(outpost.states().values()) == {OutboxState.DELIVERED.value}


async def test_a_worker_that_dies_between_telling_and_noting_it_is_repeated_by_another() -> None:
    made = house()
    one = Outpost(made, subscriptions(target("ops")), Notifier(hangs={"ops"}))
    other = Outpost(made, one.subscriptions)
    await failed(made)
    await one.turn()
    await one.outbox_relay.close()

    await other.turn()
    before = list(other.notifier.told)
    made.clock.advance(target("ops").timeout + relay.MARGIN)
    await other.turn()

    assert (before, other.notifier.told) == ([], [("ops", "failed")])


async def test_what_was_told_while_the_ledger_was_away_for_a_moment_is_not_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay, "NOTED_AGAIN_AFTER", 0.0)
    made = house()
    one = Outpost(made, subscriptions(target("ops")))
    other = Outpost(made, one.subscriptions, one.notifier, "bee")
    await failed(made)
    made.outage.begin("settle", calls=2)
    await one.turn()
    await one.settled()
    made.clock.advance(target("ops").timeout + relay.MARGIN)
    await other.turn()

    assert one.notifier.told == [("ops", "failed")]


async def test_who_lacks_a_secret_leaves_what_needs_it_to_who_stands_in_with_it() -> None:
    only_after = timedelta(seconds=45)
    address = WebAddress.parse("https://hooks.example.org/x")
    means = ByWebhook(address=address, lacks="CRON_SECRET is not set")
    lacking = attrs.evolve(target("ops"), means=means)
    has_it = attrs.evolve(target("ops"), means=attrs.evolve(means, lacks=None))
    worker = Outpost(house(), subscriptions(lacking))
    stand_in = Outpost(worker.house, subscriptions(has_it), worker.notifier, "bee", only_after)

    def hears(told: Target, _: OutboxRow) -> None:
        if told == lacking:
            raise NotDelivered("CRON_SECRET is not set")

    worker.notifier.hears = hears
    await failed(worker.house)
    for _ in range(2):
        early = [*worker.notifier.told]
        await worker.turn()
        await stand_in.turn()
        worker.house.clock.advance(only_after)

    assert early == []
    assert worker.notifier.told == [("ops", "failed")]
    assert worker.states() == {"ops": OutboxState.DELIVERED.value}


async def test_a_target_that_hangs_or_fails_holds_up_no_other() -> None:
    made = house()
    notifier = Notifier(hangs={"slow"})

    def hears(told: Target, _: OutboxRow) -> None:
        if told.name == "dead":
            raise NotDelivered("connection refused")

    notifier.hears = hears
    outpost = Outpost(made, subscriptions(target("slow"), target("dead"), target("ops")), notifier)
    await failed(made)

    for _ in range(8):
        await outpost.turn()
        await made.turn(MINUTE)
    await outpost.outbox_relay.close()

    names = [name for name, _ in notifier.told]
    assert names.count("ops") == 8
    assert names.count("slow") == 1
    assert 1 <= names.count("dead") < 8


async def test_a_full_target_hears_of_failures_later_and_its_neighbour_of_all_at_once(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(announce, "MOST_WAITING", 1)
    made = house()
    those = {*EventKind} - {EventKind.ARRIVED, EventKind.ALERT}
    wants = subscriptions(target("ops", *those), target("dead", *those), late_after=MINUTE)
    outpost = Outpost(made, wants, Notifier(hangs={"dead"}))
    await failed(made)
    await outpost.turn()  # the one event that may wait for the dead one
    for _ in range(3):
        await made.turn(MINUTE)
        await outpost.turn()
    for _ in range(2):
        made.dispatcher.tick(made.now)
        made.clock.advance(5 * MINUTE)
        await outpost.turn()

    rows = outpost.store.rows(limit=100)
    of_dead = [row.event for row in rows if row.target == "dead" and row.state == "waiting"]
    heard = [event for name, event in outpost.notifier.told if name == "ops"]
    monkeypatch.undo()
    made.clock.advance(announce.LEFT_TO_WAIT)
    await outpost.turn()
    await outpost.outbox_relay.close()

    assert of_dead == ["failed"]
    assert heard.count("failed") == 4
    assert heard.count("late") >= 1
    rows = outpost.store.rows(limit=100)
    assert [(row.target, row.event) for row in rows].count(("dead", "failed")) == 4
    said = "\n".join(lines())
    assert "1 events wait for dead" in said
    assert "dead is told of events again; of " in said


async def test_each_due_instant_arrives_once_for_who_asks_however_often_its_run_is_tried() -> None:
    made = house(attempts=3)
    wants = subscriptions(target("ops", EventKind.ARRIVED), target("log"))
    ant, bee = Outpost(made, wants), Outpost(made, wants, node="bee")
    made.dispatcher.tick(made.now)
    await made.open()
    for _ in range(3):
        await made.turn(MINUTE)
        await ant.turn()
        await bee.turn()

    runs = made.executions()
    told = [*ant.notifier.told, *bee.notifier.told]
    rows = [row for row in ant.store.rows(limit=100) if row.event == "arrived"]

    assert max(run.attempt for run in runs) > 1
    assert {row.execution_id for row in rows} == {run.id for run in runs}
    assert [one for one in told if "arrived" in one] == [("ops", "arrived")] * len(rows)
    assert len(rows) == len(runs) == 3


@pytest.mark.parametrize("why", [NotDelivered("it answered 500"), ValueError("a fault of ours")])
async def test_a_target_that_always_fails_is_given_up_with_a_warning(
    why: Exception, lines: Lines
) -> None:
    made = house()

    def refuse(_target: Target, _event: OutboxRow) -> None:
        raise why

    outpost = Outpost(made, subscriptions(target("ops")), Notifier(hears=refuse))
    await failed(made)

    for _ in range(3 * MOST_TRIES):
        await outpost.turn()
        made.clock.advance(timedelta(hours=1))

    assert len(outpost.notifier.told) == MOST_TRIES
    assert outpost.states() == {"ops": OutboxState.GIVEN_UP.value}
    assert f"Given up after try {MOST_TRIES}" in "\n".join(lines())


async def test_an_outage_of_the_ledger_ends_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "FIRST_PAUSE", 0.0)
    made = house()
    outpost = Outpost(made, subscriptions(target("ops")))
    await failed(made)
    outpost.announcer.round()
    ending = asyncio.Event()
    outpost.notifier.hears = lambda *_: ending.set()
    made.outage.begin("due", calls=1)

    async with asyncio.timeout(10):
        await outpost.outbox_relay.run(ending)

    assert outpost.notifier.told == [("ops", "failed")]


# A target that is told of many events at once


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

"""Alerts: judged by one of all, raised once, cleared once, and told after a crash."""

from datetime import timedelta

import attrs
import msgspec
import pytest

from cronhare.adapters.sql.events.alerts import SqlAlertStore
from cronhare.application.administration.reading.alerts import why_untold
from cronhare.application.events.alerting import LONGEST_GAP
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.alerts import CLEAR_AFTER, EVERY
from cronhare.domain.events.judging import alert
from cronhare.domain.events.rules import AlertConditions, AlertPolicy, Deadline, Rule
from cronhare.domain.events.targets import (
    ByCommand,
    ByEmail,
    ByListener,
    ByWebhook,
    EventKind,
    NotificationSettings,
    Subscribers,
    Subscriptions,
    Target,
    untellable,
    without,
    without_programs,
)
from cronhare.ports.events import AlertFilter
from tests.unit.application.house import House
from tests.unit.application.test_events import (
    MINUTE,
    TASK,
    Outpost,
    house,
    target,
)

BOTH = (EventKind.ALERT, EventKind.CLEARED)

#: A longer gap between two looks is one in which the ledger may have been away.
LOOK_EVERY = timedelta(seconds=20)


def subscriptions() -> Subscriptions:
    conditions = AlertConditions(not_started_by=Deadline(after=5 * MINUTE))
    named = NotificationSettings(notify=("own",), conditions=conditions)
    targets = [target("ops", *BOTH), target("own", *BOTH)]
    return Subscriptions(
        source="shop",
        targets={each.name: each for each in targets},
        schedules={"report": named},
        tasks={TASK.name: NotificationSettings(conditions=conditions)},
        refs={TASK.ref: TASK.name},
    )


def outposts() -> tuple[Outpost, Outpost]:
    one = Outpost(house(), subscriptions())
    return one, Outpost(one.house, one.subscriptions, one.notifier, "bee")


async def pass_time(minutes: int, *posts: Outpost, ticking: bool = False) -> None:
    for _ in range(minutes * 60 // LOOK_EVERY.seconds):
        posts[0].house.clock.advance(LOOK_EVERY)
        if ticking:
            posts[0].house.dispatcher.tick(posts[0].house.now)
            await posts[0].house.open()
        for post in posts:
            await post.turn()
            await post.settled()


def documents(post: Outpost, rule: str) -> list[tuple[str, str, str]]:
    rows = sorted(post.store.rows(limit=1_000), key=lambda row: (row.id, row.target))
    found = [(row.target, msgspec.json.decode(row.payload)) for row in rows]
    return [
        (target, said["type"], said["data"]["alert"]["message"])
        for target, said in found
        if said["data"].get("rule") == rule
    ]


def note_alert(made: House) -> None:
    """Let a neighbour have judged that there are too many failures."""
    one = alert(Rule.FAILED, "6 failed cron tasks", now=made.now, value=6, threshold=5)
    SqlAlertStore(made.engine, made.clock).keep([one], now=made.now, ended_at=made.now)


async def test_two_that_judge_raise_and_clear_an_alert_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cronhare.application.events.alerting.LOOK_UP_EVERY", timedelta(0))
    one, other = outposts()
    one.house.dispatcher.tick(one.house.now)

    await pass_time(8, one, other)
    late = documents(one, "not-started")
    nobody = documents(one, "scheduler")
    await pass_time(CLEAR_AFTER // MINUTE + 3, one, other, ticking=True)

    assert [(name, kind) for name, kind, _ in late] == [("own", "alert")]
    assert late[0][2].endswith("and has not, nor claimed by a scheduler")
    assert [(name, kind) for name, kind, _ in nobody] == [("ops", "alert"), ("own", "alert")]
    after = documents(one, "scheduler")[2:]
    assert [(name, kind) for name, kind, _ in after] == [
        ("ops", "alert.cleared"),
        ("own", "alert.cleared"),
    ]
    assert after[0][2].startswith("No more: Nothing that was due since ")
    told = [event for _, event in one.notifier.told if event in {"alert", "cleared"}]
    assert len(told) == len(one.store.rows(limit=1_000))


def test_who_never_judges_tells_a_new_target_within_a_minute_of_what_holds() -> None:
    made, asked = house(), subscriptions()
    one, other = Outpost(made, asked), SqlAlertStore(made.engine, made.clock)
    note_alert(made)
    for of in [asked, wider(asked, "new")]:
        for _ in range(EVERY // LOOK_EVERY):
            other.begin(now=made.now, every=timedelta(0), source="shop")
            one.alerts.look(of, made.now)
            made.clock.advance(LOOK_EVERY)
        heard = [name for name, _, _ in documents(one, "failed")]

    assert sorted(heard) == ["new", "ops", "own"]


def wider(asked: Subscriptions, name: str) -> Subscriptions:
    new = target(name, EventKind.ALERT)
    return attrs.evolve(asked, targets={**asked.targets, name: new})


async def test_of_a_schedule_of_no_file_the_list_says_what_the_teller_does() -> None:
    """Its task names its targets; nothing else in the file knows it."""
    at_home = subscriptions()
    named = attrs.evolve(at_home.tasks[TASK.name], notify=("own",))
    theirs = attrs.evolve(at_home, tasks={TASK.name: named}, schedules={})
    one = Outpost(House(tasks=[TASK]), theirs)
    one.house.add(task=TASK.ref)
    one.house.dispatcher.tick(one.house.now)
    desk = one.house.container.alert_desk(subscribers=Subscribers(theirs))

    await pass_time(8, one)

    [late] = [each for each in desk.alerts().alerts if each.rule == Rule.NOT_STARTED]
    assert late.schedule_name == "report"
    assert [each.target for each in late.told] == ["own"]
    assert [(each.target, each.why) for each in late.untold] == [
        ("ops", "report, or its task, names others in its notify")
    ]


# Those of the whole ledger: none is of our own blindness

LOOK = LONGEST_GAP / 2


class Watched:
    """A ledger on which nodes report themselves, and a judge that looks."""

    def __init__(self) -> None:
        self.house = house()
        self.judge = self.house.container.ledger_judge(policy=AlertPolicy())

    def goes_on(self, seconds: float, *alive: str) -> None:
        for _ in range(round(seconds / LOOK.total_seconds())):
            self.house.clock.advance(LOOK)
            for name in alive:
                self.house.report(name)
            self.judge.look(self.house.now)

    def raised(self) -> list[str]:
        found, _ = self.house.container.alerts().page(AlertFilter(), after=None, limit=None)
        return [f"{each.rule} {each.subject}" for each in found]


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.mark.parametrize("first", ["ant", None])
def test_a_ledger_that_was_away_makes_no_node_silent(watched: Watched, first: str | None) -> None:
    watched.goes_on(300, "ant", "bee")

    watched.house.clock.advance(timedelta(seconds=70))
    if first is not None:
        watched.house.report(first)
    watched.judge.look(watched.house.now)
    watched.goes_on(300, "ant", "bee")

    assert watched.raised() == []


def test_a_node_that_is_killed_is_told_within_two_minutes(watched: Watched) -> None:
    watched.goes_on(300, "ant", "bee")

    watched.goes_on(40, "bee")
    early = watched.raised()
    watched.goes_on(80, "bee")

    assert early == []
    assert watched.raised() == ["node ant"]


# Why a target is not told

ALERTED = frozenset({EventKind.ALERT})
MAIL = ByEmail(to=("ops@example.org",))

TARGETS = (
    Target(name="ops", means=MAIL, events=ALERTED),
    Target(name="books", means=MAIL, events=ALERTED),
    Target(name="pager", means=MAIL, events=ALERTED, alerts=frozenset({Rule.QUEUE})),
    Target(name="ends", means=MAIL),
)

FILE = Subscriptions(
    targets={each.name: each for each in TARGETS},
    schedules={"ledger": NotificationSettings(notify=("books",))},
)


def test_each_target_has_its_own_reason() -> None:
    why = why_untold(FILE, Rule.TOO_LONG, "ledger", None)

    assert why["ops"] == "ledger, or its task, names others in its notify"
    assert why["pager"] == "its alerts leave out too-long"
    assert why["ends"] == "its events have no alert"
    assert why["books"].startswith("no process that tells has found the alert yet")


def test_a_host_without_programs_keeps_the_targets_for_alerts_that_need_none() -> None:
    hook = ByWebhook(address=WebAddress.parse("https://example.org/hook"))
    targets = (
        *TARGETS,
        Target(name="hook", means=hook, events=ALERTED),
        Target(name="own", means=ByCommand(command=("true",)), events=ALERTED),
        Target(name="task", means=ByListener(function="house:heard"), events=ALERTED),
    )
    file = attrs.evolve(FILE, targets={each.name: each for each in targets})

    kept = without_programs(file)

    assert list(kept.targets) == ["ops", "books", "pager", "hook"]
    assert kept.schedules == {}
    lacking = untellable(kept, has_mail=False)
    assert set(lacking) == {"ops", "books", "pager"}
    assert list(without(lacking, kept).targets) == ["hook"]

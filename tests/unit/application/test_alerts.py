"""Alerts: judged by one of all, raised once, cleared once, and told after a crash."""

from datetime import datetime, timedelta

import attrs
import msgspec
import pytest

from cronhare.adapters.sql.events.alerts import SqlAlertStore
from cronhare.application.administration.reading.alerts import why_untold
from cronhare.application.events import alerting
from cronhare.application.events.alerting import LedgerJudge
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.alerts import EVERY
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
    EVERY_MINUTE,
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


def told_of_failures(post: Outpost) -> list[str]:
    rows = [(row.target, msgspec.json.decode(row.payload)) for row in post.store.rows(limit=1_000)]
    return sorted(target for target, said in rows if said["data"].get("rule") == Rule.FAILED)


def test_who_never_judges_tells_a_new_target_within_a_minute_of_what_holds() -> None:
    made, asked = house(), subscriptions()
    one, other = Outpost(made, asked), SqlAlertStore(made.engine, made.clock)
    found = alert(Rule.FAILED, "6 failed cron tasks", now=made.now, value=6, threshold=5)
    other.keep([found], now=made.now, ended_at=made.now)  # it has judged
    wider = {**asked.targets, "new": target("new", EventKind.ALERT)}
    for of in [asked, attrs.evolve(asked, targets=wider)]:
        for _ in range(EVERY // LOOK_EVERY):
            other.begin(now=made.now, every=timedelta(0), source="shop")
            one.alerts.look(of, made.now)
            made.clock.advance(LOOK_EVERY)
        heard = told_of_failures(one)

    assert heard == ["new", "ops", "own"]


async def test_of_a_schedule_of_no_file_the_list_says_what_the_teller_does() -> None:
    """Its task names its targets; nothing else in the file knows it."""
    at_home = subscriptions()
    named = attrs.evolve(at_home.tasks[TASK.name], notify=("own",))
    theirs = attrs.evolve(at_home, tasks={TASK.name: named}, schedules={})
    one = Outpost(House(tasks=[TASK]), theirs)
    one.house.add(task=TASK.ref)
    one.house.dispatcher.tick(one.house.now)
    desk = one.house.container.alert_desk(subscribers=Subscribers(theirs))

    for _ in range(8 * MINUTE // LOOK_EVERY):
        one.house.clock.advance(LOOK_EVERY)
        await one.turn()
        await one.settled()

    [late] = [each for each in desk.alerts().alerts if each.rule == Rule.NOT_STARTED]
    assert late.schedule_name == "report"
    assert [each.target for each in late.told] == ["own"]
    assert [(each.target, each.why) for each in late.untold] == [
        ("ops", "report, or its task, names others in its notify")
    ]


class Watched:
    """A ledger on which nodes report themselves, and a judge that looks."""

    def __init__(self) -> None:
        self.house = house()
        self.judge = self.house.container.ledger_judge(policy=AlertPolicy())

    def goes_on(self, seconds: int, *alive: str) -> None:
        for _ in range(seconds // 10):
            self.house.clock.advance(timedelta(seconds=10))
            for name in alive:
                self.house.report(name)
            self.judge.look(self.house.now)

    def raised(self) -> list[str]:
        found, _ = self.house.container.alerts().page(AlertFilter(), after=None, limit=None)
        return [f"{each.rule} {each.subject}" for each in found]


def test_a_ledger_that_was_away_makes_no_node_silent_and_a_killed_one_is_told() -> None:
    watched = Watched()
    watched.goes_on(300, "ant", "bee")
    watched.house.clock.advance(timedelta(seconds=70))
    watched.judge.look(watched.house.now)
    watched.goes_on(300, "ant", "bee")
    after_an_outage = watched.raised()

    watched.goes_on(40, "bee")
    early = watched.raised()
    watched.goes_on(80, "bee")

    assert (after_an_outage, early) == ([], [])
    assert watched.raised() == ["node ant"]


def test_very_many_schedules_are_all_judged_and_no_gap_makes_nodes_unwatched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alerting, "AT_ONCE", 1)
    made, asked, names = house(), subscriptions(), ("report", "books", "charts")
    drafts = [attrs.evolve(EVERY_MINUTE, name=name) for name in names]
    made.schedules.save(drafts, source="shop", now=made.now)
    made.dispatcher.tick(made.now)
    made.clock.advance(12 * MINUTE)
    asked = attrs.evolve(asked, schedules=dict.fromkeys(names, asked.schedules["report"]))
    one, looks, look = Outpost(made, asked), list[datetime](), LedgerJudge.look

    def looked(judge: LedgerJudge, now: datetime) -> None:
        looks.append(now)
        look(judge, now)

    monkeypatch.setattr(LedgerJudge, "look", looked)
    one.alerts.look(asked, made.now)

    found, _ = made.container.alerts().page(AlertFilter(), after=None, limit=None)
    assert [each.rule for each in found].count(Rule.NOT_STARTED) == len(names)
    assert len(looks) == 1 + len(names), "after each part, so that nodes are watched without a gap"


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

"""Alerts: judged by one of all, raised once, cleared once, and told after a crash."""

from datetime import timedelta

import attrs
import msgspec

from cronhare.adapters.sql.events.alerts import SqlAlertStore
from cronhare.application.administration.reading.alerts import why_untold
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.alerts import EVERY
from cronhare.domain.events.judging import alert
from cronhare.domain.events.rules import AlertConditions, Deadline, Rule
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

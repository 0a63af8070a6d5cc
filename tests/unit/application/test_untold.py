"""Why a target is not told of an alert, and which targets a host without programs tells."""

import attrs

from cronhare.application.administration.reading.alerts import why_untold
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.rules import Rule
from cronhare.domain.events.targets import (
    ByCommand,
    ByEmail,
    ByListener,
    ByWebhook,
    EventKind,
    NotificationSettings,
    Subscriptions,
    Target,
    untellable,
    without,
    without_programs,
)

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

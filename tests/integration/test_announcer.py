"""Announcing over each ledger: what the ledger refuses of an event, and many events at once."""

from collections.abc import Mapping

from cronhare.application.events.alerting import AlertWatch, LedgerJudge
from cronhare.application.events.announce import Announcer, Pinger
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.events import bad_end
from cronhare.domain.events.outbox import OutboxRow
from cronhare.domain.events.rules import AlertPolicy
from cronhare.domain.events.targets import (
    ByCommand,
    ByPing,
    EventKind,
    Subscribers,
    Subscriptions,
    Target,
)
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.retries.retry import Complete
from tests.integration.ledgers import IN_30_S, MINUTE, SUCCESS, Ledger, draft
from tests.integration.rules import Refusing

SHOP = "shop"
OPS, LOG = (
    Target(
        name=name,
        means=ByCommand(command=("true",)),
        events=frozenset({EventKind.RECOVERED, EventKind.ALERT}),
    )
    for name in ("ops", "log")
)


def announcer(ledger: Ledger, *targets: Target) -> Announcer:
    subscriptions = Subscriptions(source=SHOP, targets={each.name: each for each in targets})
    return Announcer(
        store=ledger.events,
        alerts=AlertWatch(
            alerts=ledger.alerts,
            events=ledger.events,
            judge=LedgerJudge(
                alerts=ledger.alerts, nodes=ledger.nodes, policy=AlertPolicy(), now=ledger.clock.now
            ),
            now=ledger.clock.now,
        ),
        subscribers=Subscribers(subscriptions),
        clock=ledger.clock,
    )


def test_an_alert_that_the_ledger_refuses_for_one_target_is_told_to_the_other(
    database_ledger: Ledger, refusing: Refusing
) -> None:
    ledger = database_ledger
    for number in range(6):
        ledger.failed(f"bad-{number}")
    tells = announcer(ledger, OPS, LOG)

    with refusing("EventDelivery", "INSERT", "NEW.target = 'log'"):
        tells.round()

    [row] = ledger.events.rows(limit=100)
    assert (row.target, row.event) == ("ops", "alert")


def test_a_bad_end_of_which_the_ledger_takes_no_event_does_not_stop_its_neighbours(
    database_ledger: Ledger, refusing: Refusing
) -> None:
    ledger = database_ledger
    for name in ("good", "bad", "fine"):
        ledger.failed(name)

    def bad_ends() -> Mapping[str, Archived]:
        refs = [draft().task]
        found = ledger.events.bad_ends(source=SHOP, refs=refs, now=ledger.now, limit=9)
        return {each.schedule_name: each for each in found}

    rows = {
        each.id: [OutboxRow.of(bad_end(each), "ops", source=SHOP, now=ledger.now)]
        for each in bad_ends().values()
    }
    with refusing("EventDelivery", "INSERT", "NEW.schedule_name = 'bad'"):
        told = ledger.events.announce(rows, now=ledger.now, until=None)

    assert told == 2
    assert {row.schedule_name for row in ledger.events.rows(limit=9)} == {"good", "fine"}
    assert bad_ends() == {}


def test_the_start_of_what_runs_is_pinged_before_its_end_and_each_once(ledger: Ledger) -> None:
    run = ledger.running("pinged")
    ledger.schedules.save([draft("pinged")], source=SHOP, now=ledger.now)
    ping = ByPing(address=WebAddress.parse("https://hc.example/uuid"))
    target = Target(name="schedules.pinged:ping", means=ping, events=frozenset())
    wants = Subscriptions(source=SHOP, pings={"pinged": target})
    ant, bee = Pinger(ledger.events), Pinger(ledger.events)

    for pinger in (ant, bee, ant):
        pinger.look(wants, (), ledger.now)
    begun = [row.event_key.split(":")[1] for row in ledger.events.rows(limit=9)]
    ledger.finish(run, Complete(), SUCCESS)
    for pinger in (bee, ant, bee):
        pinger.look(wants, (), ledger.now)
    taken = ledger.events.take(
        target.name, source=SHOP, now=ledger.now, lease=MINUTE, node="ant", limit=9
    )

    assert begun == ["start"]
    assert [row.event_key.split(":")[1] for row in taken] == ["start", "end"]


def test_a_retry_is_no_start_though_nobody_has_told_of_the_first(ledger: Ledger) -> None:
    waiting = ledger.finished(ledger.claimed("pinged"), IN_30_S)
    ledger.schedules.save([draft("pinged")], source=SHOP, now=ledger.now)
    ping = ByPing(address=WebAddress.parse("https://hc.example/uuid"))
    target = Target(name="schedules.pinged:ping", means=ping, events=frozenset())

    ledger.started(waiting)
    Pinger(ledger.events).look(Subscriptions(source=SHOP, pings={"pinged": target}), (), ledger.now)

    assert ledger.events.rows(limit=9) == []

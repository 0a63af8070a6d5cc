"""Announcing over each ledger: what the ledger refuses of an event, and many events at once."""

from datetime import timedelta

import attrs
import pytest

from cronhare.application.events import announcing
from cronhare.application.events.alerting import AlertWatch
from cronhare.application.events.announcing import Announcer
from cronhare.application.events.judging import LedgerJudge
from cronhare.application.events.pinging import Pinger
from cronhare.application.events.subscribers import Subscribers
from cronhare.domain.addresses import WebAddress
from cronhare.domain.lifecycle import events
from cronhare.domain.lifecycle.alert_policy import AlertPolicy
from cronhare.domain.lifecycle.events import OutboxRow, OutboxState
from cronhare.domain.retries.retry import Complete
from cronhare.domain.schedules.notify import ByCommand, ByPing, EventKind, Subscriptions, Target
from tests.integration.ledgers import IN_30_S, MINUTE, SUCCESS, Ledger, draft
from tests.integration.rules import Refusing

SHOP = "shop"
DAY = timedelta(days=1)
OPS, LOG = (
    Target(
        name=name,
        means=ByCommand(command=("true",)),
        events=frozenset({EventKind.RECOVERED, EventKind.ALERT}),
    )
    for name in ("ops", "log")
)


def announcer(ledger: Ledger, *targets: Target) -> Announcer:
    subscriptions = Subscriptions(
        source=SHOP,
        targets={each.name: each for each in targets},
        schedules={},
        tasks={},
        task_of={},
        refs={},
    )
    return Announcer(
        store=ledger.events,
        alerts=AlertWatch(
            alerts=ledger.alerts,
            events=ledger.events,
            judge=LedgerJudge(
                alerts=ledger.alerts,
                nodes=ledger.nodes,
                policy=AlertPolicy(),
                now=ledger.clock.now,
            ),
            now=ledger.clock.now,
        ),
        subscribers=Subscribers(subscriptions),
        clock=ledger.clock,
    )


def waits(ledger: Ledger, key: str) -> OutboxRow:
    event = events.trial("ops", now=ledger.now, id_=key)
    return OutboxRow.of(event, "ops", source=SHOP, now=ledger.now)


def expected(ledger: Ledger, name: str) -> None:
    """Let a schedule succeed whose recovery is expected."""
    run = ledger.claimed(name)
    hope = attrs.evolve(
        waits(ledger, name),
        event="recovered",
        scheduler_id=run.scheduler_id,
        schedule_name=name,
        occurred_at=ledger.now - MINUTE,
        state=OutboxState.EXPECTED.value,
    )
    ledger.events.add([hope])
    ledger.succeeded(run)


def outbox(ledger: Ledger) -> list[tuple[str, str, str]]:
    rows = reversed(ledger.events.rows(limit=100))
    return [(row.event, row.schedule_name, row.state) for row in rows]


def test_a_recovery_that_the_ledger_refuses_keeps_no_other_event_back_and_is_said_once(
    database_ledger: Ledger, refusing: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = database_ledger
    for name in ("a", "b"):
        expected(ledger, name)
    for number in range(6):
        ledger.failed(f"bad-{number}")
    old = attrs.evolve(waits(ledger, "old"), event="late", occurred_at=ledger.now - 2 * DAY)
    ledger.events.add([old])
    first = min(row.id for row in ledger.events.rows(limit=100))
    tells = announcer(ledger, OPS)

    with refusing("EventDelivery", "UPDATE", f"NEW.id = {first}"):
        for _ in range(2):
            tells.round()
            ledger.clock.advance(MINUTE)
    refused = outbox(ledger)
    tells.round()

    said = [line for line in caplog.messages if "ops is not told of" in line]
    assert len(said) == 1
    assert refused == [
        ("recovered", "a", "expected"),
        ("recovered", "b", "waiting"),
        ("late", "test", "expired"),
        ("alert", "", "waiting"),
    ]
    assert outbox(ledger)[0] == ("recovered", "a", "waiting")


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


def test_all_that_a_clock_ahead_put_off_is_due_again_within_some_rounds(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronhare.adapters.sql.events.outbox.STEP", 2)
    monkeypatch.setattr(announcing, "PAGES", 4)
    far = [attrs.evolve(waits(ledger, f"{n}"), next_try_at=ledger.now + DAY) for n in range(9)]
    ledger.events.add(far)
    tells = announcer(ledger, OPS)

    def due() -> int:
        now = ledger.now
        taken = ledger.events.take("ops", source=SHOP, now=now, lease=MINUTE, node="ant", limit=9)
        return len(taken)

    tells.round()
    first = due()
    tells.round()

    assert first == 8
    assert first + due() == 9


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

"""What every ledger promises of what is looked at often."""

from datetime import timedelta

from cronhare.domain.events.judging import alert
from cronhare.domain.events.rules import Rule
from cronhare.domain.execution import State
from cronhare.ports.records import Counts
from tests.integration.ledgers import FOR_GOOD, MINUTE, SECOND, Ledger, draft

HOUR = timedelta(hours=1)


def test_the_newest_runs_of_many_schedules_come_at_once_the_oldest_first(ledger: Ledger) -> None:
    first = ledger.claimed("a")
    ledger.succeeded(first)
    other = ledger.claimed("b")
    ledger.failed("c")
    ledger.clock.advance(MINUTE)
    second = ledger.claimed("a")
    ledger.finish(ledger.started(second), FOR_GOOD)
    ids = [first.scheduler_id, other.scheduler_id, 2**40]

    found = ledger.overview.recent(ids, each=20)

    assert [(run.id, run.state) for run in found[first.scheduler_id]] == [
        (first.id, State.SUCCEEDED),
        (second.id, State.FAILED),
    ]
    assert [run.id for run in found[other.scheduler_id]] == [other.id]
    assert found.keys() == {first.scheduler_id, other.scheduler_id}
    [newest] = ledger.overview.recent(ids, each=1)[first.scheduler_id]
    assert newest.id == second.id


def test_what_has_not_ended_is_newer_than_what_has(ledger: Ledger) -> None:
    waits = ledger.claimed("a")
    ledger.clock.advance(MINUTE)
    ended = ledger.claimed("a")
    ledger.succeeded(ended)

    found = ledger.overview.recent([waits.scheduler_id], each=2)[waits.scheduler_id]

    assert [run.id for run in found] == [ended.id, waits.id]


def test_what_is_due_next_comes_in_its_order_without_the_systems_own(ledger: Ledger) -> None:
    ledger.add("later", schedule="30 * * * *")
    ledger.add("soon")
    ledger.add("never", schedule="0 8 1 1 *")
    ledger.add("off", status=False)
    soon = ledger.now + MINUTE

    found = ledger.overview.coming(ledger.now, ledger.now + HOUR, limit=10)

    assert [(each.name, each.due_at) for each in found] == [
        ("soon", soon),
        ("later", soon.replace(minute=30)),
    ]
    assert ledger.overview.coming(ledger.now, ledger.now + HOUR, limit=1) == found[:1]
    assert ledger.overview.coming(soon + SECOND, ledger.now + HOUR, limit=9) == found[1:]
    assert ledger.overview.coming(ledger.now, soon, limit=9) == []


def test_schedules_are_counted_by_when_they_are_due_next(ledger: Ledger) -> None:
    ledger.add("a")
    ledger.add("b")
    ledger.add("c", schedule="30 * * * *")
    soon = ledger.now + MINUTE

    found = ledger.overview.count_coming(ledger.now, ledger.now + HOUR)

    assert found == {soon: 2, soon.replace(minute=30): 1}


def test_schedules_that_no_scheduler_has_planned_are_counted_so_far(ledger: Ledger) -> None:
    ledger.add("planned")
    ledger.add("edited")
    ledger.add("off")
    ledger.clock.advance(MINUTE)
    ledger.save(draft("new"), draft("another"), draft("edited", schedule="7 7 * * *"))
    ledger.disable("off")

    assert ledger.overview.count_unplanned(most=9) == 3
    assert ledger.overview.count_unplanned(most=2) == 2
    ledger.plan_edited()
    assert ledger.overview.count_unplanned(most=9) == 0


def test_what_was_due_and_has_not_begun_waits(ledger: Ledger) -> None:
    claimed, published = ledger.claimed("a"), ledger.published("b")
    ledger.running("c")
    ledger.succeeded(ledger.claimed("d"))
    due = max(claimed.due_at, published.due_at)

    assert {*ledger.overview.waiting(due + SECOND, limit=9)} == {claimed.id, published.id}
    assert len(ledger.overview.waiting(due + SECOND, limit=1)) == 1
    assert ledger.overview.waiting(claimed.due_at, limit=9) == []


def test_what_is_in_a_state_and_what_failed_is_counted_so_far(ledger: Ledger) -> None:
    for name in "abc":
        ledger.running(name)
    ledger.failed("d")
    resolved = ledger.failed("e")
    ledger.records.discard([resolved.id], note="seen", now=ledger.now)

    found = ledger.overview.count(most=2)

    assert found == Counts(running=2, retrying=0, unresolved=1, alerts=0)


def test_alerts_that_hold_are_counted_so_far(ledger: Ledger) -> None:
    ledger.alerts.begin(now=ledger.now, every=MINUTE)
    one, *_ = held = [alert(rule, "6 failed", now=ledger.now, value=6) for rule in Rule]
    ledger.alerts.keep([one], now=ledger.now, ended_at=ledger.now)
    for _ in range(10):  # judged so for long enough
        ledger.clock.advance(MINUTE)
        ledger.alerts.keep(held[1:], now=ledger.now, ended_at=ledger.now)

    assert ledger.overview.count(most=99).alerts == len(Rule) - 1
    assert ledger.overview.count(most=3).alerts == 3

"""What every ledger promises of alerts."""

from datetime import timedelta

from cronhare.domain.lifecycle.alerts import CLEAR_AFTER, Alert, Rule, Signs
from tests.integration.ledgers import FOR_GOOD, IN_30_S, MINUTE, SECOND, Ledger, at_once

DAY = timedelta(days=1)


def alert(rule: Rule = Rule.FAILED, value: int = 6) -> Alert:
    return Alert(rule=rule, message="6 failed", data={"value": value, "why": "ß\n"})


def signs(ledger: Ledger) -> Signs:
    return ledger.alerts.signs(now=ledger.now, retries=2)


def test_of_all_callers_one_judges_in_each_minute(ledger: Ledger) -> None:
    def begin(_: int) -> bool:
        return ledger.alerts.begin(now=ledger.now, every=MINUTE)

    first = at_once(4, begin)
    ledger.clock.advance(MINUTE - SECOND)
    soon = begin(0)
    ledger.clock.advance(SECOND)
    later = at_once(4, begin)

    assert sorted(first) == sorted(later) == [False, False, False, True]
    assert not soon


def test_an_empty_ledger_shows_no_sign(ledger: Ledger) -> None:
    assert signs(ledger) == Signs()


def test_unresolved_failures_and_retried_runs_are_counted(ledger: Ledger) -> None:
    ledger.succeeded(ledger.claimed("fine"))
    ledger.succeeded(ledger.finished(ledger.claimed("flaky"), IN_30_S))
    ledger.failed("broken")
    resolved = ledger.failed("mended")
    ledger.records.discard([resolved.id], note="", now=ledger.now)

    found = signs(ledger)

    assert (found.unresolved, found.runs, found.retried, found.worst) == (1, 4, 1, None)
    ledger.clock.advance(DAY + MINUTE)
    later = signs(ledger)
    assert (later.unresolved, later.runs) == (1, 0)


def test_the_newest_that_was_retried_too_often_is_found_until_soon_after_its_end(
    ledger: Ledger,
) -> None:
    run = ledger.claimed("flaky")
    for deaths in (1, 2):
        run = ledger.finished(run, IN_30_S)
        assert (run.deaths, signs(ledger).worst) == (deaths, None)
    run = ledger.finished(run, IN_30_S)

    found = signs(ledger)

    assert found.worst is not None
    assert (found.worst.id, found.worst.deaths, found.too_often) == (run.id, 3, 1)
    ledger.finished(run, FOR_GOOD)
    assert signs(ledger).too_often == 1
    ledger.clock.advance(CLEAR_AFTER + SECOND)
    assert signs(ledger).too_often == 0


def test_an_alert_is_raised_once_and_kept_until_it_has_not_held_for_a_while(
    ledger: Ledger,
) -> None:
    raised_at = ledger.now
    first = ledger.alerts.keep([alert(), alert(Rule.GROWING)], now=ledger.now)
    ledger.clock.advance(MINUTE)
    again = ledger.alerts.keep([alert(value=7)], now=ledger.now)
    kept = ledger.alerts.raised()
    ledger.clock.advance(CLEAR_AFTER)
    later = ledger.alerts.keep([alert(value=8)], now=ledger.now)

    assert sorted(first.raised) == ["failed", "growing"]
    assert (list(again.raised), list(again.cleared)) == ([], [])
    assert [(each.rule, each.raised_at) for each in kept] == [
        ("failed", raised_at),
        ("growing", raised_at),
    ]
    assert kept[0].data == {"value": 6, "why": "ß\n"}
    assert (list(later.raised), list(later.cleared)) == ([], ["growing"])
    [left] = ledger.alerts.raised()
    assert (left.rule, left.raised_at) == ("failed", raised_at)


def test_what_was_cleared_is_raised_anew(ledger: Ledger) -> None:
    ledger.alerts.keep([alert()], now=ledger.now)
    ledger.clock.advance(CLEAR_AFTER + SECOND)
    cleared = ledger.alerts.keep([], now=ledger.now)
    assert ledger.alerts.raised() == []

    anew = ledger.alerts.keep([alert()], now=ledger.now)

    assert (list(cleared.cleared), list(anew.raised)) == (["failed"], ["failed"])
    assert ledger.alerts.raised()[0].raised_at == ledger.now


def test_one_that_held_while_a_clock_was_ahead_is_over_when_that_is_set_right(
    ledger: Ledger,
) -> None:
    ledger.alerts.keep([alert(), alert(Rule.GROWING)], now=ledger.now + timedelta(days=30))

    changes = ledger.alerts.keep([alert()], now=ledger.now)

    assert list(changes.cleared) == ["growing"]
    assert [each.rule for each in ledger.alerts.raised()] == ["failed"]

"""What every ledger promises to tell of what ran when."""

from datetime import datetime, timedelta

from cronhare.ports.records import Ran
from tests.integration.ledgers import FOR_GOOD, IN_30_S, MINUTE, SECOND, Ledger

HOUR = timedelta(hours=1)


def ran(ledger: Ledger, since: datetime, until: datetime, *, limit: int = 99) -> list[Ran]:
    found = ledger.timeline.ran(since, until, limit=limit)
    assert found.since is None
    return [*found.ran]


def names(found: list[Ran]) -> list[str]:
    return [each.schedule_name for each in found]


def test_an_attempt_is_told_with_its_times_and_its_end(ledger: Ledger) -> None:
    started = ledger.running("report", node="bee")
    ledger.clock.advance(SECOND)
    ledger.finish(started, FOR_GOOD, node="bee")

    [found] = ran(ledger, ledger.now - MINUTE, ledger.now + MINUTE)

    assert found == Ran(
        execution_id=started.id,
        attempt=1,
        scheduler_id=started.scheduler_id,
        schedule_name="report",
        node="bee",
        started_at=ledger.now - SECOND,
        finished_at=ledger.now,
        ending="failed",
    )


def test_each_attempt_is_told_the_newest_first(ledger: Ledger) -> None:
    retried = ledger.finished(ledger.claimed("a"), IN_30_S)
    ledger.started(retried)
    ledger.succeeded(ledger.claimed("b"))

    found = ran(ledger, ledger.now - HOUR, ledger.now + MINUTE)

    assert [(each.schedule_name, each.attempt, each.ending) for each in found] == [
        ("b", 1, "succeeded"),
        ("a", 2, None),
        ("a", 1, "failed"),
    ]


def test_what_ended_before_or_began_after_is_left_out(ledger: Ledger) -> None:
    ledger.succeeded(ledger.claimed("before"))
    since = ledger.now + SECOND
    ledger.succeeded(ledger.claimed("in"))
    until = ledger.now + SECOND
    ledger.succeeded(ledger.claimed("after"))

    assert names(ran(ledger, since, until)) == ["in"]


def test_what_runs_into_the_window_is_told_if_it_was_claimed_in_the_day_before(
    ledger: Ledger,
) -> None:
    ledger.running("too-long")
    ledger.clock.advance(2 * HOUR)
    ledger.running("long")
    ledger.clock.advance(23 * HOUR)

    assert names(ran(ledger, ledger.now, ledger.now + MINUTE)) == ["long"]


def test_of_too_many_those_claimed_last_are_told_and_from_when_on(ledger: Ledger) -> None:
    begin = ledger.now
    for name in ("a", "b", "c"):
        ledger.succeeded(ledger.claimed(name))

    found = ledger.timeline.ran(begin, ledger.now + MINUTE, limit=2)

    assert names([*found.ran]) == ["c", "b"]
    assert found.since == begin + MINUTE

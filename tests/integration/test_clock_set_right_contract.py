"""What every ledger promises once a clock that was far ahead is set right: no wait is as long."""

from datetime import timedelta

import pytest

from cronhare.application.administration.explain import newest_instant
from cronhare.domain.execution import FARTHEST, Execution, State
from cronhare.domain.retries.retry import RetryAfter
from tests.integration.ledgers import (
    EVERY_MINUTE,
    IN_30_S,
    LEASE,
    MINUTE,
    ON_ONE,
    SECOND,
    Ledger,
    draft,
)

DAY = timedelta(days=1)
FAR = FARTHEST + DAY


def set_right(ledger: Ledger, ahead: timedelta) -> None:
    """Let a clock that was ahead be set right; nearly no time has passed meanwhile."""
    ledger.clock.move_to(ledger.now - ahead + SECOND)


def regained(ledger: Ledger) -> int:
    return ledger.claims.regain(now=ledger.now, limit=100)


def test_a_retry_begins_then(ledger: Ledger) -> None:
    running = ledger.started(ledger.published())
    ledger.clock.advance(FAR)
    ledger.finish(running, IN_30_S)
    set_right(ledger, FAR)

    first, again = regained(ledger), regained(ledger)

    retrying = ledger.seen(running)
    assert (first, again) == (1, 0)
    assert retrying.state is State.RETRYING
    assert retrying.next_attempt_at == retrying.check_at == ledger.now
    assert isinstance(ledger.start(retrying), Execution)


def test_a_lease_lapses_then_unless_it_is_renewed(ledger: Ledger) -> None:
    lost, renewed = ledger.published("lost"), ledger.published("renewed")
    ledger.clock.advance(FAR)
    ledger.started(lost)
    ledger.started(renewed)
    set_right(ledger, FAR)

    assert regained(ledger) == 2
    ledger.attempts.renew([renewed.id], now=ledger.now, node="ant", lease=LEASE)

    assert ledger.lapsed() == [lost.id]


@ON_ONE
@pytest.mark.parametrize(
    ("ahead", "wait"), [(timedelta(0), DAY), (10 * MINUTE, DAY), (DAY, 2 * DAY)], ids=str
)
def test_a_retry_that_was_to_wait_for_long_waits_on(
    ledger: Ledger, ahead: timedelta, wait: timedelta
) -> None:
    running = ledger.started(ledger.published())
    ledger.clock.advance(ahead)
    ledger.finish(running, RetryAfter(wait, "retry 1/3: the server asks for it"))
    begins = ledger.now + wait
    set_right(ledger, ahead)

    assert regained(ledger) == 0

    assert ledger.seen(running).next_attempt_at == begins


@pytest.mark.parametrize("is_published", [False, True], ids=["claimed", "published"])
def test_what_a_replay_let_go_meanwhile_starts_at_once(
    ledger: Ledger, *, is_published: bool
) -> None:
    ledger.failed()
    ledger.clock.advance(DAY)
    [replayed] = ledger.replayed(rate=1)
    if is_published:
        ledger.claims.mark_published([replayed], now=ledger.now)
    set_right(ledger, DAY)

    assert isinstance(ledger.start(replayed), Execution)


def test_what_a_replay_let_go_meanwhile_is_looked_for(ledger: Ledger) -> None:
    ledger.failed()
    ledger.clock.advance(FAR)
    [replayed] = ledger.replayed(rate=1)
    set_right(ledger, FAR)

    first, again = regained(ledger), regained(ledger)

    assert (first, again) == (1, 0)
    assert ledger.seen(replayed).next_attempt_at == ledger.now
    ledger.clock.advance(MINUTE)
    assert ledger.overdue() == [replayed.id]


def test_a_spread_ends_then_of_what_was_claimed_meanwhile_alone(ledger: Ledger) -> None:
    long = [ledger.claimed(f"long-{number}", jitter=10 * FAR) for number in range(5)]
    waiting = [one for one in long if (one.check_at or ledger.now) > ledger.now + FARTHEST + FAR]
    ledger.clock.advance(FAR)
    claimed = ledger.claimed("meanwhile", jitter=MINUTE)
    set_right(ledger, FAR)

    regained(ledger)

    assert ledger.seen(claimed).check_at == ledger.now
    assert waiting
    assert [ledger.seen(one).check_at for one in waiting] == [one.check_at for one in waiting]


@pytest.mark.parametrize("ahead", [10 * MINUTE, DAY], ids=str)
def test_what_was_claimed_by_a_clock_that_was_ahead_is_looked_for(
    ledger: Ledger, ahead: timedelta
) -> None:
    ledger.clock.advance(ahead)
    claimed, published = ledger.claimed("one"), ledger.published("other")
    set_right(ledger, ahead)

    ledger.claims.regain(now=ledger.now, limit=100)
    ledger.clock.advance(10 * MINUTE)

    assert set(ledger.overdue()) == {claimed.id, published.id}


def test_instants_that_were_decided_meanwhile_stay_so_until_an_edit(ledger: Ledger) -> None:
    ledger.add("report", **EVERY_MINUTE)
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    ledger.clock.advance(DAY)
    ledger.claim_due()
    set_right(ledger, DAY)

    ledger.clock.advance(MINUTE)
    claimed = ledger.claim_due().claimed
    told = said_of_report(ledger)
    ledger.disable("report")
    ledger.plan_edited()
    ledger.clock.advance(SECOND)
    ledger.save(draft("report"))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    [anew] = ledger.claim_due().claimed

    assert claimed == ()
    assert "nothing of it is due before 2026-03-03 12:02:00Z" in told
    assert "`cronhare schedules disable report`" in told
    assert anew.due_at <= ledger.now
    assert "nothing of it is due" not in said_of_report(ledger)


def said_of_report(ledger: Ledger) -> str:
    [stored] = ledger.schedules.schedules(["report"])
    instant = newest_instant(stored, now=ledger.now)
    return " ".join(ledger.explanations.explain(stored, instant).because)

"""What every claim store promises of the messages that follow ends for good."""

from collections.abc import Sequence

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.retries.outcome import Crash, Ending, PoisonPill
from cronhare.domain.retries.retry import Quarantine
from tests.integration.ledgers import (
    CRASH,
    FOR_GOOD,
    GRACES,
    MICROSECOND,
    SECOND,
    Ledger,
    at_once,
)


def overdue(ledger: Ledger, *, limit: int = 1_000) -> Sequence[Archived]:
    return ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=limit)


def ids(ends: Sequence[Archived]) -> list[int]:
    return [ended.id for ended in ends]


def test_an_end_is_overdue_when_its_grace_is_over(ledger: Ledger) -> None:
    archived = ledger.failed()
    ledger.clock.advance(GRACES.ended - MICROSECOND)
    before = overdue(ledger)

    ledger.clock.advance(MICROSECOND)
    (ended,) = overdue(ledger)

    assert (list(before), ended) == ([], archived)


def test_what_is_quarantined_is_found_with_its_crashes(ledger: Ledger) -> None:
    began = ledger.now
    crashes = tuple(Crash(began + n * SECOND, Ending.CRASHED, "ant") for n in range(3))
    execution = ledger.claimed()
    ledger.finished(execution, Quarantine("crashed 3 times within 300 s", crashes), CRASH)
    ledger.clock.advance(GRACES.ended)

    (ended,) = overdue(ledger)

    assert ended.kind == State.QUARANTINED
    assert ended.pill == PoisonPill(3, began, ended.failed_at)


def test_an_end_whose_message_is_in_a_queue_is_overdue_no_more(ledger: Ledger) -> None:
    first, second = ledger.failed("first"), ledger.failed("second")
    ledger.clock.advance(GRACES.ended)
    found = {ended.id: ended for ended in overdue(ledger)}

    ledger.claims.mark_ends_published([found[first.id].ticket])
    ledger.clock.advance(GRACES.ended)

    assert ids(overdue(ledger)) == [second.id]


def test_the_mark_of_an_end_says_nothing_of_a_later_one(ledger: Ledger) -> None:
    first = ledger.failed()
    old = first.ticket
    [again] = ledger.records.replay([first.id], now=ledger.now)
    ledger.finished(again, FOR_GOOD)

    ledger.claims.mark_ends_published([old])
    ledger.clock.advance(GRACES.ended)

    [ended] = overdue(ledger)
    assert (ended.ticket.attempt, old.attempt) == (2, 1)


def test_an_end_that_was_found_is_found_again_after_one_more_grace(ledger: Ledger) -> None:
    archived = ledger.failed()
    ledger.clock.advance(GRACES.ended)
    first = ids(overdue(ledger))
    ledger.clock.advance(GRACES.ended - MICROSECOND)
    soon = ids(overdue(ledger))

    ledger.clock.advance(MICROSECOND)

    assert (first, soon, ids(overdue(ledger))) == ([archived.id], [], [archived.id])


def test_what_somebody_has_resolved_needs_no_message(ledger: Ledger) -> None:
    replayed, discarded = ledger.failed("replayed"), ledger.failed("discarded")
    ledger.records.replay([replayed.id], now=ledger.now)
    ledger.records.discard([discarded.id], note="known", now=ledger.now)

    ledger.clock.advance(GRACES.ended)

    assert list(overdue(ledger)) == []


def test_the_earliest_ends_are_found_first_and_no_more_than_the_limit(ledger: Ledger) -> None:
    archived = [ledger.failed(f"job-{n}").id for n in range(3)]
    ledger.clock.advance(GRACES.ended)

    found = [ids(overdue(ledger, limit=2)) for _ in range(3)]

    assert found == [archived[:2], archived[2:], []]


def test_concurrent_callers_find_different_ends(ledger: Ledger) -> None:
    archived = [ledger.failed(f"job-{n}").id for n in range(12)]
    ledger.clock.advance(GRACES.ended)

    answers = at_once(4, lambda _: ids(overdue(ledger, limit=3)))
    answers.append(ids(overdue(ledger)))  # what one was taking, the others passed over

    assert sorted(id_ for answer in answers for id_ in answer) == archived

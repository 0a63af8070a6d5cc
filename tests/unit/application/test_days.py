"""A day at a glance."""

from cronhare.application.administration.reading.now import Days
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import NOON, draft, memory_ledger


def test_a_days_load_is_that_of_its_schedules() -> None:
    ledger = memory_ledger(FrozenClock(NOON))
    ledger.save(draft("a", schedule="0 8 * * *"), draft("b", schedule="H 9 * * *"))
    days = Days(timings=ledger.timings, timeline=ledger.timeline, now=lambda: NOON)

    found = days.load(NOON)

    assert found.schedules == 2
    assert (found.as_it_is.total, found.as_it_is.peak) == (2, 1)

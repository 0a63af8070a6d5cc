"""A day at a glance."""

from datetime import timedelta

from cronhare.application.administration.days import Days, LaneBy
from cronhare.domain.load.timings import SameTiming, Timings
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import NOON, SECOND, draft, memory_ledger

DAY = timedelta(days=1)


class CountingTimings:
    """Counts how often all schedules are read."""

    def __init__(self) -> None:
        self.reads = 0
        self.written = 0

    def timings(self) -> Timings:
        self.reads += 1
        return Timings(groups=list[SameTiming]())

    def version(self) -> str:
        return str(self.written)


def test_the_load_is_computed_anew_once_a_schedule_has_changed() -> None:
    timings = CountingTimings()
    days = Days(
        timings=timings, timeline=memory_ledger(FrozenClock(NOON)).timeline, now=lambda: NOON
    )

    days.load(NOON)
    days.load(NOON + SECOND)
    assert timings.reads == 1

    timings.written += 1
    days.load(NOON)
    assert timings.reads == 2


def test_a_days_load_is_that_of_its_schedules() -> None:
    ledger = memory_ledger(FrozenClock(NOON))
    ledger.save(draft("a", schedule="0 8 * * *"), draft("b", schedule="H 9 * * *"))
    days = Days(timings=ledger.timings, timeline=ledger.timeline, now=lambda: NOON)

    found = days.load(NOON)

    assert found.schedules == 2
    assert (found.as_it_is.total, found.as_it_is.peak) == (2, 1)


def test_a_timeline_has_a_lane_for_each_schedule_or_node() -> None:
    ledger = memory_ledger(FrozenClock(NOON))
    ledger.running("a", node="ant")
    ledger.running("b", node="ant")
    ledger.clock.advance(SECOND)
    days = Days(timings=ledger.timings, timeline=ledger.timeline, now=lambda: ledger.now)

    by_schedule = days.timeline(NOON, DAY, by=LaneBy.SCHEDULE)
    by_node = days.timeline(NOON, DAY, by=LaneBy.NODE)

    assert [lane.name for lane in by_schedule.lanes] == ["a", "b"]
    assert [(lane.name, lane.attempts) for lane in by_node.lanes] == [("ant", 2)]
    assert by_node.peak == 2

"""Reports: the load of a day, overlaps, calendars, runs to come, measures of nodes."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest

from cronhare.adapters.prometheus.catalogue import CATALOGUE, Source
from cronhare.application.administration.changing.work import LimitDesk
from cronhare.application.administration.jobs_file.difference import Change, ScheduleChange
from cronhare.application.administration.jobs_file.notes import (
    notes_on,
    notes_on_clocks,
)
from cronhare.application.administration.reading.measures import Metrics, at_work
from cronhare.application.reports.load import DayLoad, day_load
from cronhare.application.reports.overlaps import STEPS, LaneBy, Overlaps, Tone, overlaps
from cronhare.application.reports.run_calendar import (
    DAYS,
    Cell,
    Moment,
    RunCalendar,
    Unit,
    lay_out,
)
from cronhare.domain.cron import CronExpression, Fold, Gap, find_zone
from cronhare.domain.execution import State
from cronhare.domain.nodes import DISCONNECTED_AFTER, PRESUMED_DEAD_AFTER, NodeReport
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import Concurrency, Every, Recurring
from cronhare.ports.records import Ran
from cronhare.ports.schedules import SameTiming, Timings
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import memory_ledger
from tests.unit.application.house import NOON, REPORT
from tests.unit.application.test_administer import File

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def cron(text: str, number: int, jitter: int = 0) -> SameTiming:
    timing = Recurring(CronExpression.parse(text), find_zone("UTC"))
    return SameTiming(number=number, timing=timing, jitter=timedelta(minutes=jitter))


def of(*groups: SameTiming) -> DayLoad:
    return day_load(Timings(groups=groups), MONDAY)


def test_a_minute_counts_what_is_due_in_it_and_the_herd_is_on_the_hour() -> None:
    found = of(cron("0 8 * * *", 3), cron("30 8 * * *", 1)).as_it_is

    assert (found.minutes[8 * 60], found.minutes[8 * 60 + 30], found.total) == (3, 1, 4)
    assert (found.peak, found.peak_at) == (3, MONDAY + timedelta(hours=8))
    assert found.on_the_hour == pytest.approx(0.75)


@pytest.mark.parametrize(("seconds", "minute", "total"), [(1, 60, 86_400), (90, 1, 960)])
def test_intervals_count_as_often_as_they_come(seconds: int, minute: int, total: int) -> None:
    every = SameTiming(number=1, timing=Every(timedelta(seconds=seconds)))

    found = of(every).as_it_is

    assert (found.peak, found.total) == (minute, total)


def test_jitter_spreads_evenly_also_from_the_day_before() -> None:
    found = of(cron("55 23 * * *", 10, jitter=10)).as_it_is

    assert found.minutes[:6] == [1, 1, 1, 1, 1, 0]
    assert found.minutes[-5:] == [1] * 5


def test_h_spreads_over_the_hour_what_names_its_minute() -> None:
    found = of(cron("59 8 * * *", 60), cron("*/30 9 * * *", 7)).hashed

    assert found.minutes[479:541] == [0, *[pytest.approx(1)] * 60, 7]
    assert found.minutes[570] == 7


# What ran at the same time

BEGIN = datetime(2026, 3, 2, 12, tzinfo=UTC)
WINDOW = timedelta(minutes=STEPS)


def ran(name: str, since: float, until: float, *, ending: str = "succeeded", id_: int = 1) -> Ran:
    """An attempt that ran from a minute of the window to another one."""
    return Ran(
        execution_id=id_,
        attempt=1,
        scheduler_id=1,
        schedule_name=name,
        node="ant",
        started_at=BEGIN + timedelta(minutes=since),
        finished_at=BEGIN + timedelta(minutes=until),
        ending=ending,
    )


def overlapping(*found: Ran) -> Overlaps:
    until = BEGIN + WINDOW
    return overlaps(found, since=BEGIN, until=until, now=until, by=LaneBy.SCHEDULE, most=9)


def test_the_peak_is_the_most_at_once() -> None:
    found = overlapping(ran("a", 0, 10), ran("b", 5, 20), ran("c", 8, 9), ran("d", 20, 21))

    assert (found.peak, found.peak_at) == (3, BEGIN + timedelta(minutes=8))
    assert found.running[:12] == [1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 2, 1]
    assert found.running[20:23] == [1, 1, 0]


def test_bars_too_close_to_be_told_apart_are_one_and_a_failure_stays_one() -> None:
    short = 0.01
    found = overlapping(
        ran("a", 0, short, id_=1),
        ran("a", 0.05, 0.05 + short, ending="timed-out", id_=2),
        ran("a", 0.1, 0.1 + short, id_=3),
        ran("a", 60, 61, id_=4),
    )

    [lane] = found.lanes
    assert [(bar.tone, bar.attempts, bar.execution_id) for bar in lane.bars] == [
        (Tone.SUCCEEDED, 2, 1),
        (Tone.FAILED, 1, 2),
        (Tone.SUCCEEDED, 1, 4),
    ]
    assert lane.failed == 1


# A calendar of runs

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 31, 10, 30, tzinfo=UTC)  # a Tuesday, two days after the spring change
LONG_AGO = NOW - timedelta(days=900)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Due = Callable[[datetime], datetime | None]


def never(_: datetime) -> datetime | None:
    return None


def laid_out(
    *moments: Moment, since: datetime = LONG_AGO, due: Due = never, zone: ZoneInfo = BERLIN
) -> RunCalendar:
    return lay_out(moments, zone=zone, now=NOW, since=since, due_after=due)


def with_runs(calendar: RunCalendar) -> list[Cell]:
    return [cell for _, row in calendar.rows for cell in row if cell.runs]


def test_what_runs_often_is_in_hours_and_the_worst_run_of_an_hour_stands_for_it() -> None:
    begin = NOW - timedelta(minutes=25)
    moments = [
        Moment(begin, State.SUCCEEDED),
        Moment(begin + timedelta(minutes=1), State.FAILED),
        Moment(begin + timedelta(minutes=2), State.RUNNING),
    ]

    calendar = laid_out(*moments)

    assert (calendar.unit, len(calendar.rows)) == (Unit.HOUR, DAYS)
    [cell] = with_runs(calendar)
    assert (cell.runs, cell.state, cell.instant) == (3, State.FAILED, moments[1].due_at)
    assert cell.begins == datetime(2026, 3, 31, 10, tzinfo=UTC)
    assert cell.ends == datetime(2026, 3, 31, 11, tzinfo=UTC)
    assert calendar.rows[-1][1][12] == cell  # noon in Berlin's summer time


def hourly(after: datetime) -> datetime:
    return after.replace(minute=0, second=0) + HOUR


def test_in_hours_a_day_of_23_or_25_has_each_of_its_runs_once() -> None:
    for day, hours in ((date(2026, 3, 29), 23), (date(2026, 10, 25), 25)):
        now = datetime(day.year, day.month, day.day, 9, tzinfo=UTC) + DAY
        moments = [Moment(now - n * HOUR, State.SUCCEEDED) for n in range(60, -1, -1)]

        calendar = lay_out(moments, zone=BERLIN, now=now, since=LONG_AGO, due_after=hourly)

        row = dict(calendar.rows)[day]
        assert len(row) == 24
        assert sum(cell.runs for cell in row) == hours
        assert not [cell for cell in row if cell.missing]
        assert all(before.ends == cell.begins for before, cell in pairwise(row))
        others = [cells for each, cells in calendar.rows if each in {day - DAY, day + DAY}]
        assert all(cell.runs <= 1 for cells in others for cell in cells)


def test_a_day_on_which_it_was_due_and_did_not_run_is_missing_that_instant() -> None:
    def at_noon(after: datetime) -> datetime | None:
        noon = after.replace(hour=12, minute=0, second=0)
        return noon if noon > after else noon + DAY

    calendar = laid_out(since=NOW - 3 * DAY, due=at_noon, zone=ZoneInfo("UTC"))

    cells = [cell for _, row in calendar.rows for cell in row]
    missing = [cell.instant for cell in cells if cell.missing]
    assert missing == [datetime(2026, 3, day, 12, tzinfo=UTC) for day in (28, 29, 30)]
    ahead = [cell for cell in cells if cell.begins > NOW]
    assert ahead
    assert not any(cell.known for cell in ahead)
    assert not cells[0].known  # it was not there yet


# Runs to come, and notes on files


DRAFT = ScheduleDraft(name="nightly", task=REPORT.ref, schedule="30 2 * * *")
LOCAL = attrs.evolve(DRAFT, timezone="Europe/Berlin")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schedule": None, "every": timedelta(seconds=5), "jitter": timedelta(minutes=1)}, "jitt"),
        ({"schedule": "*/5 * * * *", "gap": Gap.SKIP}, "gap and fold say nothing"),
        ({"schedule": "5 * * * *", "fold": Fold.BOTH}, "gap and fold say nothing"),
    ],
)
def test_what_has_no_effect_or_an_odd_one_is_noted(changes: dict[str, Any], said: str) -> None:
    notes = map(str, notes_on(File([attrs.evolve(DRAFT, **changes)], [REPORT]), now=NOON))

    assert [said in note for note in notes] == [True]


@pytest.mark.parametrize("params", ["{}", '{"shop": true}', '{"shop": " "}'])
def test_a_concurrency_key_that_a_schedules_own_params_leave_empty_is_noted(params: str) -> None:
    concurrency = Concurrency(key="c-{params.shop}", limit=5)
    keyed = attrs.evolve(DRAFT, concurrency=concurrency, params=params)

    [note] = notes_on(File([keyed], [REPORT]), now=NOON)

    assert str(note) == (
        "schedules.nightly: concurrency.key: params.shop is no text or whole number in its params: "
        "each run has the key 'c-'"
    )


def test_what_the_clock_does_next_is_noted_of_what_is_added() -> None:
    added = [ScheduleChange(name="nightly", change=Change.ADD, draft=of) for of in (LOCAL, DRAFT)]

    notes = notes_on_clocks(added, now=NOON)

    assert [str(note) for note in notes] == [
        "schedules.nightly: 2026-03-29 02:30 does not exist that day: it runs after the gap",
        "schedules.nightly: 2026-10-25 02:30 comes twice that day: it runs the first time",
    ]


# Measures


def test_who_stood_still_is_alive_and_who_is_cut_off_from_its_broker_serves_no_queue() -> None:
    slow = NodeReport(
        name="ant",
        role="worker",
        host="ant",
        version="1",
        started_at=NOON,
        seen_at=NOON - PRESUMED_DEAD_AFTER,
        queues=("mails",),
    )
    dead = attrs.evolve(slow, name="bee", seen_at=slow.seen_at - timedelta(seconds=1))
    cut_off = attrs.evolve(slow, name="cat", consumed_at=NOON - 2 * DISCONNECTED_AFTER)

    nodes, workers = at_work([slow, dead, cut_off], NOON, waited_for=())

    assert nodes == {("worker", "alive"): 2, ("worker", "silent"): 1}
    assert workers == {("mails",): 1}


def test_all_that_is_described_as_the_ledgers_is_measured() -> None:
    ledger = memory_ledger(FrozenClock(NOON))
    metrics = Metrics(
        statistics=ledger.statistics,
        records=ledger.records,
        nodes=ledger.nodes,
        limits=LimitDesk(limits=ledger.limits, trail=ledger.trail),
        now=ledger.clock.now,
        schedules=9,
    )

    described = {one.name for one in CATALOGUE if one.source is Source.LEDGER}
    assert metrics.measure().keys() == described

"""A calendar of runs."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronhare.application.reports.run_calendar import (
    DAYS,
    WEEKS,
    Cell,
    Moment,
    RunCalendar,
    Unit,
    lay_out,
)
from cronhare.domain.execution import State

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


def test_what_runs_once_a_day_is_in_weeks_across_the_change_of_the_clock() -> None:
    times = [datetime(2026, 3, day, 22, 30, tzinfo=UTC) for day in (27, 28, 29)]

    calendar = laid_out(*(Moment(at, State.SUCCEEDED) for at in times))

    assert (calendar.unit, len(calendar.rows)) == (Unit.DAY, WEEKS)
    assert [cell.begins for cell in with_runs(calendar)] == [
        datetime(2026, 3, 26, 23, tzinfo=UTC),
        datetime(2026, 3, 27, 23, tzinfo=UTC),
        datetime(2026, 3, 29, 22, tzinfo=UTC),  # 00:30 in Berlin: the next day
    ]
    assert calendar.rows[-1][0] == date(2026, 3, 30)


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

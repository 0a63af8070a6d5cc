"""Windows of time and other conditions, and which due instants do not run for them, and why."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.cron import CronExpression
from cronhare.domain.reading import Invalid
from cronhare.domain.schedules.conditions import (
    Calendar,
    CalendarDraft,
    Conditions,
    WindowInvalid,
    compiled,
    expired,
    parse_window,
    read_conditions,
)
from cronhare.domain.schedules.planning import Plan, Planned, plan
from cronhare.domain.schedules.schedule import Every, Misfire, MisfirePolicy, Recurring, Schedule
from cronhare.domain.schedules.skips import (
    MOST_JUDGED,
    Circumstances,
    Pause,
    SkipKind,
    skip_kind,
)
from tests.unit.executions import NOON, schedule

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("2026-12-25", ["2026-12-25T00:00", "2026-12-25T23:59"], ["2026-12-24T23:59"]),
        ("12-25", ["2031-12-25T12:00"], ["2031-12-26T00:00"]),
        ("12-24..01-01", ["2026-12-31T08:00", "2027-01-01T08:00"], ["2027-01-02T00:00"]),
        ("02-29", ["2028-02-29T08:00"], ["2027-03-01T00:00"]),
        ("Sat,Sun", ["2026-03-07T00:00", "2026-03-08T23:59"], ["2026-03-09T00:00"]),
        ("fri-mon", ["2026-03-06T08:00", "2026-03-09T08:00"], ["2026-03-10T08:00"]),
        ("22:00-06:00", ["2026-03-02T22:00", "2026-03-03T05:59"], ["2026-03-03T06:00"]),
        ("Fri 22:00-06:00", ["2026-03-07T05:59"], ["2026-03-07T22:00", "2026-03-06T05:59"]),
        ("12-31 18:00-24:00", ["2026-12-31T23:59"], ["2027-01-01T00:00", "2026-12-31T17:59"]),
        (
            "2026-12-24T18:00..2026-12-27T06:00",
            ["2026-12-24T18:00", "2026-12-27T05:59"],
            ["2026-12-24T17:59", "2026-12-27T06:00"],
        ),
    ],
)
def test_a_window_covers_what_it_says_by_the_clocks_of_its_zone(
    text: str, inside: list[str], outside: list[str]
) -> None:
    window = parse_window(text)

    def covers(wall: str) -> bool:
        moment = datetime.fromisoformat(wall).replace(tzinfo=BERLIN).astimezone(UTC)
        return window.covers(moment, BERLIN)

    assert [covers(wall) for wall in inside] == [True] * len(inside)
    assert [covers(wall) for wall in outside] == [False] * len(outside)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-02-30",
        "2026-12-26..2026-12-24",
        "2026-12-24T18:00..2026-12-24T06:00",
        "2026-12-24T18:00..2026-12-25T06:00 22:00-23:00",
        "\uff11\uff12:00-13:00",
        "x" * 10_000,
    ],
)
def test_what_is_no_window_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(WindowInvalid, match=r"write \"2026-12-25\"|longer than"):
        parse_window(text)


@pytest.mark.parametrize(
    ("wall", "covered"),
    [
        ("2026-03-29T00:30", False),
        ("2026-03-29T01:00", False),  # 03:00 summer time: from 02:00 to 03:00 there was nothing
        ("2026-10-25T00:30", True),  # 02:30 summer time
        ("2026-10-25T01:30", True),  # 02:30 winter time: the hour comes twice, and is dark twice
        ("2026-10-25T02:00", False),
    ],
)
def test_a_window_in_the_hour_that_a_clock_leaps_over_or_repeats(
    wall: str, *, covered: bool
) -> None:
    """*wall* is in UTC."""
    moment = datetime.fromisoformat(wall).replace(tzinfo=UTC)

    assert parse_window("02:00-03:00").covers(moment, BERLIN) is covered


def test_an_instant_at_the_edge_of_the_calendar_is_in_no_window() -> None:
    last = datetime.max.replace(tzinfo=UTC)

    assert not parse_window("Mon-Sun").covers(last, ZoneInfo("Asia/Tokyo"))


MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HOLIDAYS = compiled(
    CalendarDraft(
        name="de-holidays",
        timezone="Europe/Berlin",
        windows=(("2026-03-02", "Foundation Day"), ("12-25", "Christmas Day")),
    )
)


def decide(
    what: Schedule,
    now: datetime,
    *,
    due: datetime = NOON,
    **circumstances: Any,  # noqa: ANN401
) -> Plan:
    seen = Circumstances(**circumstances)
    return plan(Planned(schedule=what, next_due=due, circumstances=seen), now)


def reasons(decided: Plan) -> list[tuple[int, str]]:
    return [(one.count, one.reason) for one in decided.skips]


@pytest.mark.parametrize(
    ("said", "now", "reason"),
    [
        ({"skip_on": ("de-holidays",)}, NOON, "calendar de-holidays: Foundation Day"),
        ({"only_on": ("de-holidays",)}, NOON, None),
        ({"only_on": ("de-holidays",)}, NOON + DAY, "in no window of calendar de-holidays"),
        ({"blackout": ("13:00-14:00",)}, NOON, "blackout: 13:00-14:00"),  # its own zone's
        ({"expires": 10 * MINUTE}, NOON + 10 * MINUTE, None),
        (
            {"expires": 10 * MINUTE},
            NOON + 11 * MINUTE,
            "expired: not started within 10m of its due instant",
        ),
    ],
)
def test_what_a_condition_keeps_from_running_is_skipped_with_its_reason(
    said: dict[str, Any], now: datetime, reason: str | None
) -> None:
    timing = Recurring(CronExpression.parse("0 * * * *"), BERLIN)
    what = schedule(timing=timing, conditions=Conditions(**said))
    due = now.replace(minute=0)

    decided = decide(what, now, due=due, calendars={"de-holidays": HOLIDAYS})

    assert (len(decided.runs), decided.next_due) == (reason is None, due + HOUR)
    assert reasons(decided) == ([] if reason is None else [(1, reason)])


def test_of_what_was_missed_a_skipped_day_is_not_the_one_that_is_caught_up() -> None:
    what = schedule(conditions=Conditions(blackout=("14:00-16:00",)))

    decided = decide(what, NOON + 3 * HOUR + 30 * MINUTE)

    assert [run.due for run in decided.runs] == [NOON + HOUR]
    assert reasons(decided)[0] == (2, "blackout: 14:00-16:00")


def test_what_a_pause_that_is_over_has_covered_does_not_run_and_the_rest_is_missed() -> None:
    what = schedule(misfire=Misfire(policy=MisfirePolicy.ALL))
    pause = Pause(since=NOON + HOUR, until=NOON + 3 * HOUR, by="ann", reason="migration")

    decided = decide(what, NOON + 4 * HOUR, pause=pause)

    assert [run.due for run in decided.runs] == [NOON, NOON + 3 * HOUR, NOON + 4 * HOUR]
    assert reasons(decided) == [
        (
            2,
            "paused by ann since 2026-03-02 13:00:00Z until 2026-03-02 15:00:00Z: migration",
        )
    ]


def test_a_pause_stops_what_was_due_before_it_and_that_nobody_had_claimed() -> None:
    decided = decide(schedule(), NOON + 2 * MINUTE, pause=Pause(since=NOON + MINUTE))

    assert (decided.runs, len(decided.skips)) == ((), 1)


def test_a_year_of_seconds_in_a_pause_is_one_row_and_not_looked_at_one_by_one() -> None:
    what = schedule(timing=Every(timedelta(seconds=1)))
    pause = Pause(since=NOON)

    decided = decide(what, NOON + 365 * DAY, pause=pause)

    assert sum(one.count for one in decided.skips) == 365 * 86_400 + 1
    assert decided.weight <= MOST_JUDGED


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"max_runs": 0}, "max_runs: 0 is not a whole number, 1-1,000,000,000"),
        ({"expires": 5}, "expires: 5 is not a whole number, 1,000-3,155,760,000,000"),
        ({"skip_on": "holidays"}, 'skip_on: "holidays" is not a list of names of calendars'),
        ({"blackout": ["noon"]}, "blackout: 'noon' is no window"),
        ({"blackout": ["Sat"] * 101}, 'blackout: ["Sat",'),
        ({"on": 1}, "on: is not known here"),
    ],
)
def test_impossible_conditions_are_refused_with_what_is_allowed(
    given: dict[str, Any], fault: str
) -> None:
    with pytest.raises(Invalid) as refused:
        read_conditions(given)

    assert str(refused.value).startswith(fault)


def upcoming(what: Schedule, first: datetime, last: datetime) -> list[datetime]:
    found, instant = [first], what.next(first)
    while instant is not None and instant <= last:
        found.append(instant)
        instant = what.next(instant)
    return found


SPRING, AUTUMN = datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)
WINDOWS = ["Sat", "Sun 02:00-04:00", "22:00-06:00", "2026-03-29", "10-25", "Mon-Fri"]


@given(
    begins=st.sampled_from([SPRING, AUTUMN]),
    text=st.sampled_from(["30 2 * * *", "*/30 * * * *", "0 1-3 * * *", "15 * * * 0"]),
    policy=st.sampled_from(list(MisfirePolicy)),
    windows=st.lists(st.sampled_from(WINDOWS), max_size=3, unique=True),
    steps=st.lists(st.integers(min_value=1, max_value=600), min_size=1, max_size=12),
    only=st.booleans(),
)
def test_over_clock_changes_each_instant_is_run_or_skipped_once_and_none_in_a_window_runs(
    *,
    begins: datetime,
    text: str,
    policy: MisfirePolicy,
    windows: Sequence[str],
    steps: Sequence[int],
    only: bool,
) -> None:
    calendar = compiled(
        CalendarDraft(
            name="days", timezone="Europe/Berlin", windows=tuple((each, None) for each in windows)
        )
    )
    assert isinstance(calendar, Calendar)
    skip_on, only_on = ((), ("days",)) if only else (("days",), ())
    what = schedule(
        timing=Recurring(CronExpression.parse(text), BERLIN),
        changed_at=begins,
        misfire=Misfire(policy=policy),
        conditions=Conditions(skip_on=skip_on, only_on=only_on),
    )
    due, now = what.next(begins), begins
    decided_of: dict[datetime, int] = {}
    for step in steps:
        now += timedelta(minutes=step)
        if due is None or due > now:
            continue
        planned = Planned(
            schedule=what, next_due=due, circumstances=Circumstances(calendars={"days": calendar})
        )
        decided = plan(planned, now)
        assert decided == plan(planned, now)  # replicas agree
        for run in decided.runs:
            decided_of[run.due] = decided_of.get(run.due, 0) + 1
            assert (calendar.window_at(run.due) is not None) == only
        skipped = sum(one.count for one in decided.skips)
        assert len(upcoming(what, due, now)) == skipped + len(decided.runs)
        due = decided.next_due
    assert set(decided_of.values()) <= {1}


def test_conditions_have_kinds() -> None:
    assert skip_kind(str(Pause(since=NOON))) is SkipKind.PAUSED
    assert skip_kind(expired(NOON - NOON)) is SkipKind.EXPIRED
    assert skip_kind("calendar holidays: New year") is SkipKind.CALENDAR
    assert skip_kind("in no window of calendar office") is SkipKind.CALENDAR
    assert skip_kind("blackout: 02:00-04:00") is SkipKind.BLACKOUT
    assert skip_kind("what a hand wrote") is SkipKind.OTHER

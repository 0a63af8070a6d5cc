"""`gap` and `fold` against a calendar that lists what the clock on the wall shows.

It walks through the real minutes and notes when each wall time is shown, then through the wall
times for those that never are. It knows of no stretches, marks or searches.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronhare.application.reports.clock_effects import clock_effects
from cronhare.domain.cron import ClockChanges, CronExpression, Fold, Gap, clock_changes, find_zone
from cronhare.domain.cron.timeline import MINUTE
from cronhare.domain.schedules.schedule import Recurring

#: The days of changes: an hour and half an hour, at midnight, two hours, in both directions.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"), ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"), ("America/New_York", "2026-11-01"),
    ("Australia/Lord_Howe", "2025-10-04"), ("Australia/Lord_Howe", "2026-04-04"),
    ("America/Havana", "2026-03-08"), ("America/Havana", "2026-11-01"),
    ("Asia/Beirut", "2026-03-28"), ("Africa/Cairo", "2026-04-23"), ("Africa/Cairo", "2026-10-29"),
    ("America/Sao_Paulo", "2018-11-03"), ("America/Sao_Paulo", "2018-02-17"),
    ("Antarctica/Troll", "2026-03-29"), ("Antarctica/Troll", "2026-10-25"),
    ("Asia/Pyongyang", "2018-05-04"), ("Asia/Pyongyang", "2015-08-14"),
    ("Pacific/Apia", "2011-12-29"), ("America/St_Johns", "2006-10-28"),
    ("America/Caracas", "2007-12-08"), ("America/Caracas", "2016-04-30"),
]  # fmt: skip

Shows = dict[datetime, list[datetime]]


def wall_of(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


@cache
def calendar(zone: ZoneInfo, day: str) -> tuple[datetime, datetime, Shows]:
    """Give the two days around a change, and when each wall time of them is shown."""
    noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    start, end = noon - timedelta(days=1), noon + timedelta(days=1)
    shown = defaultdict[datetime, list[datetime]](list)
    for number in range((end - start) // MINUTE):
        shown[wall_of(start + number * MINUTE, zone)].append(start + number * MINUTE)
    return start, end, shown


def expected(
    due: Callable[[datetime], bool], zone: ZoneInfo, day: str, changes: ClockChanges
) -> Iterator[datetime]:
    start, end, shown = calendar(zone, day)
    passes = {Fold.FIRST: slice(0, 1), Fold.SECOND: slice(-1, None), Fold.BOTH: slice(None)}
    wall, last = wall_of(start, zone), wall_of(end - MINUTE, zone)
    lost: list[datetime] = []
    while wall <= last:
        if wall in shown:
            if lost and len(lost) < 180 and changes.gap is Gap.AFTER and any(map(due, lost)):
                yield shown[wall][0]
            lost = []
            if due(wall):
                yield from shown[wall][passes[changes.fold]]
        else:
            lost.append(wall)
        wall += MINUTE


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(CHANGES),
    st.sets(st.integers(0, 59), min_size=1, max_size=3),
    st.sets(st.integers(0, 23) | st.integers(0, 4), min_size=1, max_size=4),
    st.builds(clock_changes, st.sampled_from(Gap), st.sampled_from(Fold)),
)
def test_fixed_times_run_as_the_policies_say(
    change: tuple[str, str], minutes: set[int], hours: set[int], changes: ClockChanges
) -> None:
    zone, day = ZoneInfo(change[0]), change[1]
    text = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
    expression = CronExpression.parse(text)
    start, end, _ = calendar(zone, day)

    wanted = sorted(
        set(expected(lambda w: w.minute in minutes and w.hour in hours, zone, day, changes))
    )

    timing = Recurring(expression, zone, changes)
    assert walked(timing, start, end) == wanted
    backwards, moment = list[datetime](), timing.previous(end)
    while moment is not None and moment >= start:
        backwards.append(moment)
        moment = timing.previous(moment)
    assert backwards[::-1] == wanted
    matching = [
        start + n * MINUTE
        for n in range((end - start) // MINUTE)
        if expression.matches(start + n * MINUTE, zone, changes)
    ]
    assert matching == wanted
    keys = [timing.key(run) for run in wanted]
    assert len(set(keys)) == len(keys)


def walked(timing: Recurring, start: datetime, end: datetime) -> list[datetime]:
    found, moment = list[datetime](), timing.next(start - timedelta(microseconds=1))
    while moment is not None and moment < end:
        found.append(moment)
        moment = timing.next(moment)
    return found


@pytest.mark.parametrize(("gap", "fold"), list(product(Gap, Fold)))
@pytest.mark.parametrize(("zone", "day"), CHANGES[:8])
def test_a_wildcard_runs_at_each_real_minute_whatever_they_say(
    gap: Gap, fold: Fold, zone: str, day: str
) -> None:
    plain = Recurring(CronExpression.parse("*/10 * * * *"), ZoneInfo(zone))
    start = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(hours=12)
    end = start + timedelta(days=2)

    said = Recurring(plain.expression, plain.zone, clock_changes(gap, fold))

    assert walked(said, start, end) == walked(plain, start, end)


AT_HOME = ZoneInfo("Europe/Berlin")


def effects(text: str, day: str, gap: str = "after", fold: str = "first") -> list[tuple[str, str]]:
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    found = clock_effects(
        CronExpression.parse(text),
        AT_HOME,
        clock_changes(Gap(gap), Fold(fold)),
        after=start,
        until=start + timedelta(days=2),
    )
    return [(effect.kind.value, f"{effect.meant:%H:%M} {effect.at:%H:%MZ}") for effect in found]


def test_what_is_leapt_over_is_told_as_moved_or_skipped() -> None:
    times = ["02:00 01:00Z", "02:30 01:00Z"]

    assert effects("0,30 1-3 * * *", "2026-03-28") == [("moved", time) for time in times]
    assert effects("0,30 1-3 * * *", "2026-03-28", gap="skip") == [
        ("skipped", time) for time in times
    ]


@pytest.mark.parametrize(
    ("fold", "passes"),
    [
        ("first", [("first-pass", "02:30 00:30Z")]),
        ("second", [("second-pass", "02:30 01:30Z")]),
        ("both", [("first-pass", "02:30 00:30Z"), ("second-pass", "02:30 01:30Z")]),
    ],
)
def test_of_what_comes_twice_the_passes_that_run_are_told(
    fold: str, passes: list[tuple[str, str]]
) -> None:
    assert effects("30 2,4 * * *", "2026-10-24", fold=fold) == passes


def test_a_wildcard_is_told_to_run_in_both_passes_and_never_to_be_moved() -> None:
    assert [kind for kind, _ in effects("*/30 * * * *", "2026-10-24")] == [
        "first-pass",
        "second-pass",
    ] * 2
    assert effects("*/30 * * * *", "2026-03-28") == []


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_wildcard_that_only_ever_meets_a_gap_has_no_run_and_says_so_soon() -> None:
    """The second Sunday of March has no 02:xx in New York, from 2007 on."""
    expression, zone = CronExpression.parse("*/5 2 ? 3 SUN#2"), find_zone("America/New_York")

    assert expression.next(at("2010-01-01T00:00+00:00"), zone) is None
    assert expression.next(at("2000-01-01T00:00+00:00"), zone) == at("2000-03-12T02:00-05:00")
    assert expression.previous(at("2026-01-01T00:00+00:00"), zone) == at("2006-03-12T02:55-05:00")

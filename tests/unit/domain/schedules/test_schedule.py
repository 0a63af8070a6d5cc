"""When a schedule is due: cron text, intervals, one instant, by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.cron import CronExpression
from cronhare.domain.cron.timeline import EPOCH
from cronhare.domain.schedules.keys import every_key
from cronhare.domain.schedules.planning import (
    INSTANTS_AT_ONCE,
    Plan,
    Planned,
    plan,
)
from cronhare.domain.schedules.schedule import (
    LONGEST_INTERVAL,
    ByHand,
    Every,
    Misfire,
    MisfirePolicy,
    Once,
    Recurring,
    Schedule,
    fault_of_period,
)
from cronhare.domain.schedules.task import TaskRef

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOURLY = Recurring(CronExpression.parse("0 * * * *"), ZoneInfo("UTC"))


def schedule(timing: Recurring | Once | ByHand = HOURLY, **changes: Any) -> Schedule:  # noqa: ANN401
    plain = Schedule(
        id=16, name="report", task=TaskRef("report", 25), timing=timing, changed_at=NOON
    )
    return msgspec.structs.replace(plain, **changes)


def at(hour: int, minute: int = 0) -> datetime:
    return NOON.replace(hour=hour, minute=minute)


def test_a_one_off_is_due_at_its_minute_in_utc() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    once = Once(datetime(2025, 12, 15, 16, 0, 59, 9, tzinfo=berlin))

    assert once.at == datetime(2025, 12, 15, 15, 0, tzinfo=UTC)
    assert once.key(once.at) == "once-2025-12-15-15-0"


@pytest.mark.parametrize(
    ("starts_at", "expected"),
    [
        (at(15) - MINUTE, at(15)),
        (at(15), at(15)),
        (at(15) + timedelta(microseconds=1), at(16)),
        (at(3), at(13)),
    ],
)
def test_a_schedule_is_first_due_at_or_after_its_start(
    starts_at: datetime, expected: datetime
) -> None:
    assert schedule(starts_at=starts_at).next(at(12)) == expected


@pytest.mark.parametrize(
    ("ends_at", "expected"),
    [(at(13), at(13)), (at(13) - timedelta(microseconds=1), None), (at(3), None)],
)
def test_a_schedule_is_last_due_at_or_before_its_end(
    ends_at: datetime, expected: datetime | None
) -> None:
    assert schedule(ends_at=ends_at).next(at(12)) == expected


SECOND, WEEK = timedelta(seconds=1), timedelta(days=7)

periods = st.integers(1, LONGEST_INTERVAL // SECOND).map(lambda number: number * SECOND)
moments = st.timedeltas(timedelta(days=-3650), timedelta(days=80_000)).map(
    lambda since: EPOCH + since
)


def interval_schedule(seconds: float = 1, **changes: Any) -> Schedule:  # noqa: ANN401
    plain = Schedule(
        id=16,
        name="poll",
        task=TaskRef("report", 25),
        timing=Every(seconds * SECOND),
        changed_at=NOON - WEEK,
    )
    return msgspec.structs.replace(plain, **changes)


def due(what: Schedule, *, late: timedelta, since: datetime = NOON) -> Plan:
    return plan(Planned(schedule=what, next_due=since), since + late)


def counted(decided: Plan) -> int:
    return len(decided.runs) + sum(skip.count for skip in decided.skips)


@given(periods, moments)
def test_the_next_tick_is_the_first_whole_number_of_periods_since_1970(
    period: timedelta, moment: datetime
) -> None:
    every = Every(period)

    following, before = every.next(moment), every.previous(moment)

    assert following is not None
    assert before is not None
    assert before < moment < following
    for tick in (before, following):
        assert not (tick - EPOCH) % period
    on_a_tick = not (moment - EPOCH) % period
    assert following - before == (2 * period if on_a_tick else period)


@given(periods, moments, st.timedeltas(timedelta(0), WEEK))
def test_the_ticks_between_two_moments_are_those_that_next_walks_through(
    period: timedelta, first: datetime, length: timedelta
) -> None:
    every, last = Every(max(period, length / 50 // SECOND * SECOND, SECOND)), first + length
    walked, tick = list[datetime](), every.next(first - timedelta(microseconds=1))
    while tick is not None and tick <= last:
        walked.append(tick)
        tick = every.next(tick)

    ticks = every.between(first, last)

    assert list(ticks) == walked
    assert list(ticks[1:3]) == walked[1:3]


@given(moments, moments)
def test_different_seconds_never_share_a_key(some: datetime, other: datetime) -> None:
    some, other = some.replace(microsecond=0), other.replace(microsecond=0)
    assert (every_key(some) == every_key(other)) == (some == other)


@pytest.mark.parametrize(
    "period",
    [-SECOND, timedelta(0), SECOND / 2, 1.5 * SECOND, LONGEST_INTERVAL + SECOND, timedelta.max],
)
def test_any_other_interval_is_refused_with_what_is_allowed(period: timedelta) -> None:
    assert "whole seconds from 1s to 366d" in str(fault_of_period(period))


def test_at_an_end_of_the_calendar_there_is_nothing_more() -> None:
    assert Every(SECOND).next(datetime.max.replace(tzinfo=UTC)) is None
    assert Every(SECOND).previous(datetime.min.replace(tzinfo=UTC)) is None


# What is due


def test_a_stall_of_a_minute_does_not_run_a_second_sixty_times() -> None:
    decided = due(interval_schedule(), late=timedelta(minutes=1))

    assert [NOON + timedelta(minutes=1) - run.due for run in decided.runs] == [
        number * SECOND for number in range(15, -1, -1)
    ]
    assert "caught up by one later run" in decided.skips[0].reason


@pytest.mark.parametrize(
    ("policy", "runs"), [("skip", 16), ("once", 16), ("all", 100)], ids=["skip", "once", "all"]
)
def test_of_a_week_of_seconds_each_is_counted_and_few_are_looked_at(policy: str, runs: int) -> None:
    weekly = interval_schedule(misfire=Misfire(policy=MisfirePolicy(policy)))

    decided = due(weekly, late=WEEK)

    assert (len(decided.runs), counted(decided)) == (runs, WEEK // SECOND + 1)
    assert decided.weight <= runs
    assert decided.weight < INSTANTS_AT_ONCE
    assert decided.next_due == NOON + WEEK + SECOND
    assert len(decided.skips) == 1


@given(
    st.integers(1, 4000),
    st.timedeltas(timedelta(0), timedelta(hours=3)),
    st.sampled_from(MisfirePolicy),
    st.timedeltas(timedelta(0), timedelta(hours=2)),
    st.integers(1, 50),
)
def test_each_tick_runs_once_or_is_skipped_once_and_none_is_forgotten(
    seconds: int, stall: timedelta, policy: MisfirePolicy, window: timedelta, cap: int
) -> None:
    what = interval_schedule(seconds, misfire=Misfire(policy=policy, window=window, cap=cap))
    first = what.next(NOON)
    assert first is not None

    decided = due(what, late=stall, since=first)

    ticks = Every(seconds * SECOND)
    recorded = [run.due for run in decided.runs]
    for skip in decided.skips:
        row = list(ticks.between(skip.first, skip.last))
        assert (row[-1], len(row)) == (skip.last, skip.count)
        recorded += row
    assert sorted(recorded) == list(ticks.between(first, first + stall))
    assert decided.next_due == what.next(first + stall)

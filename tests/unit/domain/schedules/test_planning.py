from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.cron import CronExpression
from cronhare.domain.schedules.planning import (
    GRACE,
    MOST_COUNTED,
    Plan,
    Planned,
    Unfinished,
    plan,
)
from cronhare.domain.schedules.schedule import (
    MOST_WAITING,
    Every,
    Misfire,
    MisfirePolicy,
    OverlapPolicy,
    Recurring,
    Schedule,
)
from tests.unit.executions import NOON, schedule

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def recurring(text: str, zone: str = "UTC") -> Recurring:
    return Recurring(CronExpression.parse(text), ZoneInfo(zone))


def misfire(policy: str, **changes: Any) -> Misfire:  # noqa: ANN401
    return Misfire(policy=MisfirePolicy(policy), **changes)


def due(what: Schedule, cursor: datetime, now: datetime, **changes: Any) -> Plan:  # noqa: ANN401
    return plan(Planned(schedule=what, next_due=cursor, **changes), now)


def runs(decided: Plan) -> list[datetime]:
    return [run.due for run in decided.runs]


def skips(decided: Plan) -> list[tuple[datetime, datetime, int]]:
    return [(skip.first, skip.last, skip.count) for skip in decided.skips]


def at(minute: float) -> datetime:
    return NOON + minute * MINUTE


# What is due now


@pytest.mark.parametrize("policy", MisfirePolicy)
@pytest.mark.parametrize("late", [timedelta(0), SECOND, GRACE])
def test_a_claim_within_the_grace_is_on_time_whatever_the_policy(
    policy: MisfirePolicy, late: timedelta
) -> None:
    hourly = schedule(misfire=misfire(policy))

    decided = due(hourly, at(0), at(0) + late)

    assert (runs(decided), decided.skips, decided.next_due) == ([at(0)], (), at(60))


# What was missed


@pytest.mark.parametrize(
    ("rule", "now", "ran", "skipped", "why"),
    [
        (misfire("skip"), at(150), [], [(at(0), at(120), 3)], "the misfire policy is skip"),
        (misfire("skip"), at(1) + SECOND, [], [(at(0), at(0), 1)], "the misfire policy is skip"),
        (misfire("once"), at(120), [at(120)], [(at(0), at(60), 2)], "caught up by one later run"),
        (misfire("all"), at(120), [at(0), at(60), at(120)], [], ""),
        (misfire("all", cap=1), at(150), [at(120)], [(at(0), at(60), 2)], "more than the 1 runs"),
        (
            misfire("once", window=HOUR),
            at(150),
            [at(120)],
            [(at(0), at(60), 2)],
            "older than the misfire window of 1:00:00",
        ),
        (
            misfire("all", window=90 * MINUTE),
            at(150),
            [at(60), at(120)],
            [(at(0), at(0), 1)],
            "older than the misfire window of 1:30:00",
        ),
    ],
)
def test_what_was_missed_is_caught_up_as_the_policy_says(
    rule: Misfire,
    now: datetime,
    ran: list[datetime],
    skipped: list[tuple[datetime, datetime, int]],
    why: str,
) -> None:
    hourly = schedule(misfire=rule)

    decided = due(hourly, at(0), now)

    assert (runs(decided), skips(decided)) == (ran, skipped)
    assert all(why in skip.reason for skip in decided.skips)
    assert decided.next_due == hourly.next(now)


@pytest.mark.parametrize(
    ("policy", "now", "missed"),
    [
        ({}, at(0), [0]),
        ({}, at(150), [3]),  # 12:00, 13:00, and its own: 14:00
        ({}, at(120), [2]),  # its own is on time
        ({"window": HOUR}, at(150), [1]),
        ({"policy": MisfirePolicy.ALL}, at(120), [1, 1, 0]),
    ],
)
def test_a_run_knows_how_many_missed_instants_it_makes_up_for(
    policy: dict[str, Any], now: datetime, missed: list[int]
) -> None:
    hourly = schedule(misfire=Misfire(**policy))

    assert [run.missed for run in due(hourly, at(0), now).runs] == missed


def test_a_run_that_takes_the_place_of_those_before_it_makes_up_for_what_they_would() -> None:
    hourly = schedule(misfire=misfire("all"), overlap=OverlapPolicy.CANCEL_PREVIOUS)

    assert [run.missed for run in due(hourly, at(0), at(150)).runs] == [3]


# Very long rows


LONG = at(60 * 24 * 30)


@pytest.mark.parametrize(
    ("rule", "now", "ran"),
    [
        (misfire("all", cap=3), LONG, [LONG - 2 * MINUTE, LONG - MINUTE, LONG]),
        (misfire("all", cap=1), LONG, [LONG - MINUTE, LONG]),  # on time, even beyond its cap
        (misfire("once", cap=3), LONG + 30 * SECOND, [LONG]),
    ],
)
def test_of_a_very_long_row_the_oldest_part_is_skipped_unread(
    rule: Misfire, now: datetime, ran: list[datetime]
) -> None:
    decided = due(schedule("* * * * *", misfire=rule), at(0), now)

    assert (runs(decided), decided.next_due) == (ran, LONG + MINUTE)
    oldest = decided.skips[0]
    assert (oldest.first, oldest.count) == (at(0), MOST_COUNTED)
    assert "at least 10000" in oldest.reason
    end = LONG - timedelta(days=2)
    ended = due(schedule("* * * * *", ends_at=end, misfire=rule), at(0), now)
    assert (ended.runs[-1:] == (), ended.next_due) == (rule.policy is MisfirePolicy.SKIP, None)


# Edits


def test_what_was_due_before_the_edit_and_not_claimed_is_given_up() -> None:
    decided = due(schedule("* * * * *", changed_at=at(0.5)), at(0), at(0.6), edited=True)

    assert (runs(decided), skips(decided)) == ([], [(at(0), at(0), 1)])
    assert decided.skips[0].reason == (
        "the schedule was edited at 2026-03-02 12:00:30Z, before this was claimed"
    )
    assert decided.next_due == at(1)


def test_what_is_due_after_the_edit_is_still_to_be_claimed() -> None:
    decided = due(schedule("* * * * *", changed_at=at(0)), at(1), at(5), edited=True)

    assert decided == Plan(next_due=at(1))


# Overlap

ONE = Unfinished(active=99)
IN_LINE = Unfinished(active=99, waiting=100, count=1)
NEARLY_FULL = Unfinished(active=99, waiting=100, count=MOST_WAITING - 1)


@pytest.mark.parametrize(
    ("policy", "until", "others", "waits", "why"),
    [
        ("skip", 2, None, {0: False}, "the one before has not ended"),
        ("skip", 0, ONE, {}, "execution 99 has not ended"),
        ("queue_one", 2, None, {0: False, 1: True}, "the one before waits already"),
        ("queue_one", 2, ONE, {0: True}, "the one before waits already"),
        ("queue_one", 0, IN_LINE, {}, "execution 100 waits already"),
        ("queue_all", 2, None, {0: False, 1: True, 2: True}, ""),
        ("queue_all", 2, NEARLY_FULL, {0: True}, "1,000 runs wait already"),
        ("cancel_previous", 1, None, {1: False}, "a later run takes its place"),
        ("cancel_previous", 1, ONE, {1: True}, "a later run takes its place"),
    ],
)
def test_a_run_begins_beside_another_waits_or_is_skipped_as_the_overlap_policy_says(
    policy: str, until: int, others: Unfinished | None, waits: dict[int, bool], why: str
) -> None:
    what = schedule("* * * * *", overlap=OverlapPolicy(policy), misfire=misfire("all"))

    decided = due(what, at(0), at(until), unfinished=others)

    ran = {at(minute): wait for minute, wait in waits.items()}
    assert {run.due: run.waits for run in decided.runs} == ran
    left = [at(minute) for minute in range(until + 1) if minute not in waits]
    assert skips(decided) == [(minute, minute, 1) for minute in left]
    reason = f"overlap: {why} (overlap policy {policy})"
    assert {skip.reason for skip in decided.skips} <= {reason}
    assert decided.next_due == at(until + 1)


# Jitter


def test_runs_are_spread_over_the_whole_jitter() -> None:
    delays = [
        due(schedule(id=number, jitter=HOUR), at(0), at(0)).runs[0].delay for number in range(1_000)
    ]

    assert min(delays) >= timedelta(0)
    assert max(delays) < HOUR
    quarters = [sum(delay // (HOUR / 4) == n for delay in delays) for n in range(4)]
    assert all(200 < quarter < 300 for quarter in quarters)


# Whatever happens

TEXTS = ["* * * * *", "*/7 * * * *", "30 2 * * *", "0 * * * 1-5", "5,50 1-3 29 3 *", "@hourly"]
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"]

around_a_clock_change = st.integers(0, 3 * 24 * 60).map(
    lambda minute: datetime(2026, 3, 28, tzinfo=UTC) + minute * MINUTE
)
schedules = st.builds(
    schedule,
    timing=st.builds(recurring, st.sampled_from(TEXTS), st.sampled_from(ZONES))
    | st.builds(Every, st.integers(1, 300).map(lambda number: number * MINUTE)),
    overlap=st.sampled_from(OverlapPolicy),
    misfire=st.builds(
        Misfire,
        policy=st.sampled_from(MisfirePolicy),
        window=st.timedeltas(timedelta(0), timedelta(days=2)),
        cap=st.integers(0, 50),
    ),
    ends_at=st.none() | around_a_clock_change,
)


@given(
    schedules,
    around_a_clock_change,
    st.timedeltas(timedelta(0), timedelta(hours=30)),
    st.none() | st.sampled_from([ONE, IN_LINE]),
)
def test_each_due_instant_runs_once_or_is_skipped_once_and_none_is_forgotten(
    what: Schedule, since: datetime, stall: timedelta, unfinished: Unfinished | None
) -> None:
    cursor, now = what.next(since), since + stall
    if cursor is None or cursor > now:
        return

    decided = due(what, cursor, now, unfinished=unfinished)

    wanted = _between(what, cursor, now)
    recorded = runs(decided)
    for skip in decided.skips:
        row = _between(what, skip.first, skip.last)
        assert (row[-1], len(row)) == (skip.last, skip.count)
        recorded += row
    assert sorted(recorded) == wanted
    assert decided.next_due == what.next(now)
    keys = [*(run.key for run in decided.runs), *(skip.key for skip in decided.skips)]
    assert len(set(keys)) == len(keys)


def _between(what: Schedule, first: datetime, last: datetime) -> list[datetime]:
    found, instant = list[datetime](), what.next(first - timedelta(microseconds=1))
    while instant is not None and instant <= last:
        found.append(instant)
        instant = what.next(instant)
    return found

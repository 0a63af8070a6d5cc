from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.cron import CronExpression
from cronhare.domain.schedules.planning import (
    GRACE,
    MOST_COUNTED,
    Plan,
    Planned,
    Run,
    Unfinished,
    plan,
)
from cronhare.domain.schedules.schedule import (
    MOST_WAITING,
    BrokenSchedule,
    ByHand,
    Misfire,
    MisfirePolicy,
    Once,
    OverlapPolicy,
    Recurring,
    Schedule,
)
from cronhare.domain.schedules.skips import Idle, Why
from cronhare.domain.schedules.task import TaskRef

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def recurring(text: str, zone: str = "UTC") -> Recurring:
    return Recurring(CronExpression.parse(text), ZoneInfo(zone))


def schedule(text: str = "* * * * *", **changes: Any) -> Schedule:  # noqa: ANN401
    plain = Schedule(
        id=16,
        name="report",
        task=TaskRef("report", 25),
        timing=recurring(text),
        changed_at=NOON - HOUR,
    )
    return msgspec.structs.replace(plain, **changes)


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


def test_an_instant_runs_at_its_time() -> None:
    decided = due(schedule(), at(0), at(0))

    assert decided == Plan(runs=(Run(due=NOON, key="cron-2026-3-2-12-0"),), next_due=at(1))


def test_what_is_not_due_yet_is_left_as_it_is() -> None:
    assert due(schedule(), at(5), at(0)) == Plan(next_due=at(5))


@pytest.mark.parametrize("policy", MisfirePolicy)
@pytest.mark.parametrize("late", [timedelta(0), SECOND, GRACE])
def test_a_claim_within_the_grace_is_on_time_whatever_the_policy(
    policy: MisfirePolicy, late: timedelta
) -> None:
    hourly = schedule("0 * * * *", misfire=misfire(policy))

    decided = due(hourly, at(0), at(0) + late)

    assert (runs(decided), decided.skips, decided.next_due) == ([at(0)], (), at(60))


def test_a_claim_after_the_grace_was_missed() -> None:
    hourly = schedule("0 * * * *", misfire=misfire("skip"))

    decided = due(hourly, at(0), at(0) + GRACE + timedelta(microseconds=1))

    assert (runs(decided), skips(decided)) == ([], [(at(0), at(0), 1)])


def test_a_short_stall_runs_late_every_minute_of_it() -> None:
    decided = due(schedule(misfire=misfire("skip")), at(0), at(1))

    assert (runs(decided), decided.skips) == ([at(0), at(1)], ())


# What was missed


def test_skip_runs_nothing_that_was_missed() -> None:
    decided = due(schedule(misfire=misfire("skip")), at(0), at(10.5))

    assert (runs(decided), skips(decided)) == ([at(10)], [(at(0), at(9), 10)])
    assert decided.skips[0].reason == "missed, and the misfire policy is skip"
    assert decided.next_due == at(11)


def test_once_runs_the_latest_of_what_was_missed() -> None:
    hourly = schedule("0 * * * *")

    decided = due(hourly, at(0), at(150))

    assert (runs(decided), skips(decided)) == ([at(120)], [(at(0), at(60), 2)])
    assert decided.next_due == at(180)


def test_once_runs_nothing_that_was_missed_beside_a_run_on_time() -> None:
    decided = due(schedule("0 * * * *"), at(0), at(120))

    assert (runs(decided), skips(decided)) == ([at(120)], [(at(0), at(60), 2)])
    assert "caught up by one later run" in decided.skips[0].reason


def test_all_runs_whatever_was_missed() -> None:
    decided = due(schedule(misfire=misfire("all")), at(0), at(10))

    assert (runs(decided), decided.skips) == ([at(n) for n in range(11)], ())


def test_all_runs_no_more_than_its_cap_and_those_are_the_latest() -> None:
    decided = due(schedule(misfire=misfire("all", cap=3)), at(0), at(10.5))

    assert (runs(decided), skips(decided)) == ([at(8), at(9), at(10)], [(at(0), at(7), 8)])
    assert "more than the 3 runs" in decided.skips[0].reason


@pytest.mark.parametrize("policy", ["once", "all"])
def test_nothing_is_caught_up_from_beyond_the_window(policy: str) -> None:
    hourly = schedule("0 * * * *", misfire=misfire(policy, window=HOUR))

    decided = due(hourly, at(0), at(150))

    assert (runs(decided), skips(decided)) == ([at(120)], [(at(0), at(60), 2)])
    assert "older than the misfire window of 1:00:00" in decided.skips[0].reason


def test_what_is_exactly_as_old_as_the_window_is_caught_up() -> None:
    hourly = schedule("0 * * * *", misfire=misfire("all", window=timedelta(minutes=90)))

    assert runs(due(hourly, at(0), at(150))) == [at(60), at(120)]


@pytest.mark.parametrize(
    ("policy", "now", "missed"),
    [
        ({}, at(0), [0]),
        ({}, at(150), [3]),  # 12:00, 13:00, and its own: 14:00
        ({}, at(120), [2]),  # its own is on time
        ({"window": HOUR}, at(150), [1]),
        ({"policy": MisfirePolicy.ALL}, at(120), [1, 1, 0]),
        ({"policy": MisfirePolicy.SKIP}, at(120), [0]),
    ],
)
def test_a_run_knows_how_many_missed_instants_it_makes_up_for(
    policy: dict[str, Any], now: datetime, missed: list[int]
) -> None:
    hourly = schedule("0 * * * *", misfire=Misfire(**policy))

    assert [run.missed for run in due(hourly, at(0), now).runs] == missed


def test_a_run_that_takes_the_place_of_those_before_it_makes_up_for_what_they_would() -> None:
    hourly = schedule("0 * * * *", misfire=misfire("all"), overlap=OverlapPolicy.CANCEL_PREVIOUS)

    assert [run.missed for run in due(hourly, at(0), at(150)).runs] == [3]


def test_a_skipped_row_bears_the_key_of_its_first_instant() -> None:
    decided = due(schedule(misfire=misfire("skip")), at(0), at(10))

    assert decided.skips[0].key == "cron-2026-3-2-12-0"


# Very long rows


def test_of_a_very_long_row_the_oldest_part_is_skipped_unread() -> None:
    now = at(60 * 24 * 30)

    decided = due(schedule(misfire=misfire("all", cap=3)), at(0), now)

    (skip,) = decided.skips
    assert runs(decided) == [now - 2 * MINUTE, now - MINUTE, now]
    assert (skip.first, skip.last, skip.count) == (at(0), now - 3 * MINUTE, MOST_COUNTED)
    assert "at least 10000" in skip.reason


@pytest.mark.parametrize("policy", ["skip", "once"])
def test_a_very_long_row_is_caught_up_by_its_policy(policy: str) -> None:
    now = at(60 * 24 * 30) + 30 * SECOND

    decided = due(schedule(misfire=misfire(policy, cap=3)), at(0), now)

    assert runs(decided) == [now - 30 * SECOND]
    assert decided.next_due == now + 30 * SECOND


def test_a_cap_longer_than_the_row_never_reaches_behind_the_cursor() -> None:
    now = at(MOST_COUNTED)
    unbounded = misfire("all", cap=1_000_000, window=timedelta(days=365))

    decided = due(schedule(misfire=unbounded), at(0), now)

    assert (len(decided.runs), decided.runs[0].due, decided.skips) == (MOST_COUNTED + 1, at(0), ())


def test_a_very_long_row_runs_what_is_on_time_even_beyond_its_cap() -> None:
    now = at(60 * 24 * 30)

    decided = due(schedule(misfire=misfire("all", cap=1)), at(0), now)

    assert runs(decided) == [now - MINUTE, now]


def test_a_very_long_row_of_a_schedule_that_ended_stops_at_its_end() -> None:
    end = at(60 * 24 * 20)

    decided = due(schedule(ends_at=end, misfire=misfire("once", cap=3)), at(0), at(60 * 24 * 22))

    assert (runs(decided), decided.next_due) == ([end], None)


# Edits


def test_a_new_schedule_is_planned_from_its_creation() -> None:
    decided = plan(Planned(schedule=schedule(changed_at=at(0))), at(30))

    assert decided == Plan(next_due=at(1))


def test_an_edited_schedule_is_planned_from_the_edit() -> None:
    edited = schedule("0 * * * *", changed_at=at(30))

    assert due(edited, at(31), at(30.5), edited=True) == Plan(next_due=at(60))


def test_what_was_due_before_the_edit_and_not_claimed_is_given_up() -> None:
    decided = due(schedule(changed_at=at(0.5)), at(0), at(0.6), edited=True)

    assert (runs(decided), skips(decided)) == ([], [(at(0), at(0), 1)])
    assert decided.skips[0].reason == (
        "the schedule was edited at 2026-03-02 12:00:30Z, before this was claimed"
    )
    assert decided.next_due == at(1)


def test_what_was_due_at_the_very_instant_of_the_edit_is_given_up_too() -> None:
    decided = due(schedule(changed_at=at(0)), at(0), at(0.2), edited=True)

    assert (skips(decided), decided.next_due) == ([(at(0), at(0), 1)], at(1))


def test_what_is_due_after_the_edit_is_still_to_be_claimed() -> None:
    decided = due(schedule(changed_at=at(0)), at(1), at(5), edited=True)

    assert decided == Plan(next_due=at(1))


@pytest.mark.parametrize("timing", [ByHand(), Once(at(90)), recurring("0 0 1 1 *")])
def test_a_due_schedule_can_become_one_of_any_kind(timing: ByHand | Once | Recurring) -> None:
    decided = due(schedule(timing=timing, changed_at=at(5)), at(0), at(6), edited=True)

    assert skips(decided) == [(at(0), at(0), 1)]
    assert decided.next_due == timing.next(at(5))


def test_a_disabled_schedule_is_no_longer_due() -> None:
    decided = due(schedule(enabled=False, changed_at=at(0.5)), at(1), at(0.6), edited=True)

    assert decided == Plan(idle=Idle(why=Why.DISABLED, since=at(1)))


def test_a_broken_schedule_cannot_be_planned() -> None:
    broken = BrokenSchedule(id=16, name="report", problem="no such zone", changed_at=NOON)

    assert plan(Planned(schedule=broken, next_due=at(0)), at(0)) == Plan(problem="no such zone")


# Kinds and bounds


def test_a_one_off_runs_once() -> None:
    decided = due(schedule(timing=Once(at(0))), at(0), at(0.2))

    assert decided == Plan(runs=(Run(due=at(0), key="once-2026-3-2-12-0"),))


def test_a_one_off_that_was_missed_is_caught_up() -> None:
    assert runs(due(schedule(timing=Once(at(0))), at(0), at(600))) == [at(0)]


def test_a_schedule_by_hand_is_never_planned() -> None:
    assert plan(Planned(schedule=schedule(timing=ByHand())), at(0)) == Plan()


def test_nothing_runs_after_the_end() -> None:
    decided = due(schedule(ends_at=at(2), misfire=misfire("all")), at(0), at(10))

    assert (runs(decided), decided.next_due) == ([at(0), at(1), at(2)], None)


def test_nothing_is_due_before_the_start() -> None:
    assert plan(Planned(schedule=schedule(starts_at=at(30))), at(0)) == Plan(next_due=at(30))


# Overlap

ONE = Unfinished(active=99)
IN_LINE = Unfinished(active=99, waiting=100, count=1)


def test_a_run_does_not_begin_beside_an_unfinished_one_where_that_is_forbidden() -> None:
    alone = schedule(overlap=OverlapPolicy.SKIP)

    decided = due(alone, at(0), at(0), unfinished=ONE)

    assert (runs(decided), skips(decided)) == ([], [(at(0), at(0), 1)])
    assert decided.skips[0].reason == "overlap: execution 99 has not ended (overlap policy skip)"
    assert decided.next_due == at(1)


def test_of_several_runs_the_first_begins_where_overlap_is_forbidden() -> None:
    alone = schedule(overlap=OverlapPolicy.SKIP, misfire=misfire("all"))

    decided = due(alone, at(0), at(2))

    assert (runs(decided), skips(decided)) == (
        [at(0)],
        [(at(1), at(1), 1), (at(2), at(2), 1)],
    )


def test_runs_overlap_where_that_is_allowed() -> None:
    assert runs(due(schedule(), at(0), at(0), unfinished=ONE)) == [at(0)]


def waits(decided: Plan) -> list[bool]:
    return [run.waits for run in decided.runs]


def test_one_run_waits_and_further_ones_are_skipped() -> None:
    one = schedule(overlap=OverlapPolicy.QUEUE_ONE, misfire=misfire("all"))

    free, beside = due(one, at(0), at(2)), due(one, at(0), at(2), unfinished=ONE)
    full = due(one, at(0), at(0), unfinished=IN_LINE)

    assert (runs(free), waits(free), skips(free)) == (
        [at(0), at(1)],
        [False, True],
        [(at(2), at(2), 1)],
    )
    assert (runs(beside), waits(beside), len(beside.skips)) == ([at(0)], [True], 2)
    assert [skip.reason for skip in full.skips] == [
        "overlap: execution 100 waits already (overlap policy queue_one)"
    ]


def test_all_runs_wait_up_to_a_bound() -> None:
    all_ = schedule(overlap=OverlapPolicy.QUEUE_ALL, misfire=misfire("all"))
    nearly_full = Unfinished(active=99, waiting=100, count=MOST_WAITING - 1)

    free, beside = due(all_, at(0), at(2)), due(all_, at(0), at(2), unfinished=nearly_full)

    assert (runs(free), waits(free)) == ([at(0), at(1), at(2)], [False, True, True])
    assert (runs(beside), waits(beside)) == ([at(0)], [True])
    assert beside.skips[0].reason == "overlap: 1,000 runs wait already (overlap policy queue_all)"


def test_the_latest_run_takes_the_place_of_those_before_it() -> None:
    latest = schedule(overlap=OverlapPolicy.CANCEL_PREVIOUS, misfire=misfire("all"))

    free, beside = due(latest, at(0), at(1)), due(latest, at(0), at(1), unfinished=ONE)

    assert (runs(free), waits(free), skips(free)) == ([at(1)], [False], [(at(0), at(0), 1)])
    assert (runs(beside), waits(beside)) == ([at(1)], [True])


# Jitter


def test_every_replica_spreads_a_run_alike() -> None:
    spread = schedule(jitter=HOUR)

    assert due(spread, at(0), at(0)) == due(spread, at(0), at(0.3))


def test_runs_are_spread_over_the_whole_jitter() -> None:
    delays = [
        due(schedule(id=number, jitter=HOUR), at(0), at(0)).runs[0].delay for number in range(1_000)
    ]

    assert min(delays) >= timedelta(0)
    assert max(delays) < HOUR
    quarters = [sum(delay // (HOUR / 4) == n for delay in delays) for n in range(4)]
    assert all(200 < quarter < 300 for quarter in quarters)


def test_two_runs_of_one_schedule_are_spread_differently() -> None:
    first, second = due(schedule(jitter=HOUR, misfire=misfire("all")), at(0), at(1)).runs

    assert first.delay != second.delay


# Whatever happens

TEXTS = ["* * * * *", "*/7 * * * *", "30 2 * * *", "0 * * * 1-5", "5,50 1-3 29 3 *", "@hourly"]
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"]

around_a_clock_change = st.integers(0, 3 * 24 * 60).map(
    lambda minute: datetime(2026, 3, 28, tzinfo=UTC) + minute * MINUTE
)
schedules = st.builds(
    schedule,
    timing=st.builds(recurring, st.sampled_from(TEXTS), st.sampled_from(ZONES)),
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


@given(schedules, around_a_clock_change, st.lists(st.timedeltas(SECOND, HOUR), max_size=8))
def test_looking_often_or_seldom_never_runs_an_instant_twice(
    what: Schedule, since: datetime, pauses: list[timedelta]
) -> None:
    cursor, now, seen = what.next(since), since, list[datetime]()
    for pause in pauses:
        now += pause
        if cursor is None or cursor > now:
            continue
        decided = due(what, cursor, now)
        seen += runs(decided)
        cursor = decided.next_due

    assert seen == sorted(set(seen))


def _between(what: Schedule, first: datetime, last: datetime) -> list[datetime]:
    found, instant = list[datetime](), what.next(first - timedelta(microseconds=1))
    while instant is not None and instant <= last:
        found.append(instant)
        instant = what.next(instant)
    return found

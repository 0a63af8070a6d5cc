"""When schedules are due, by which keys, and which task a run of one is."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.cron.timeline import EPOCH
from cronhare.domain.schedules.catalog import Catalog, MissingKind, MissingTask
from cronhare.domain.schedules.keys import (
    LONGEST_AGO,
    Boot,
    cron_key,
    manual_key,
    once_key,
)
from cronhare.domain.schedules.planning import (
    INSTANTS_AT_ONCE,
    Plan,
    Planned,
    plan,
)
from cronhare.domain.schedules.schedule import (
    LONGEST_INTERVAL,
    Every,
    Misfire,
    MisfirePolicy,
    Once,
    Schedule,
    fault_of_period,
)
from cronhare.domain.schedules.task import (
    BUILT_IN_CLASSES,
    Keep,
    Task,
    TaskRef,
    assigned_number,
    force_instant,
)
from tests.unit.executions import NOON, schedule


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
        (at(15), at(15)),
        (at(15) + timedelta(microseconds=1), at(16)),
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


def each_second(**changes: Any) -> Schedule:  # noqa: ANN401
    return schedule(timing=Every(SECOND), changed_at=NOON - WEEK, **changes)


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


@pytest.mark.parametrize(
    "period",
    [-SECOND, timedelta(0), SECOND / 2, 1.5 * SECOND, LONGEST_INTERVAL + SECOND, timedelta.max],
)
def test_any_other_interval_is_refused_with_what_is_allowed(period: timedelta) -> None:
    assert "whole seconds from 1s to 366d" in str(fault_of_period(period))


# What is due


def test_a_stall_of_a_minute_does_not_run_a_second_sixty_times() -> None:
    decided = due(each_second(), late=timedelta(minutes=1))

    assert [NOON + timedelta(minutes=1) - run.due for run in decided.runs] == [
        number * SECOND for number in range(15, -1, -1)
    ]
    assert "caught up by one later run" in decided.skips[0].reason


@pytest.mark.parametrize(
    ("policy", "runs"), [("skip", 16), ("once", 16), ("all", 100)], ids=["skip", "once", "all"]
)
def test_of_a_week_of_seconds_each_is_counted_and_few_are_looked_at(policy: str, runs: int) -> None:
    weekly = each_second(misfire=Misfire(policy=MisfirePolicy(policy)))

    decided = due(weekly, late=WEEK)

    assert (len(decided.runs), counted(decided)) == (runs, WEEK // SECOND + 1)
    assert decided.weight <= runs
    assert decided.weight < INSTANTS_AT_ONCE
    assert decided.next_due == NOON + WEEK + SECOND
    assert len(decided.skips) == 1


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("due", "key"),
    [
        (datetime(2025, 12, 12, 8, 0, tzinfo=UTC), "cron-2025-12-12-8-0"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "cron-2026-1-2-3-4"),
    ],
)
def test_a_key_names_the_minute_without_zero_padding(due: datetime, key: str) -> None:
    assert cron_key(due) == key


def test_the_two_passes_of_a_repeated_hour_have_two_keys() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    second = first.replace(fold=1)

    assert (cron_key(first), cron_key(second)) == ("cron-2026-10-25-0-30", "cron-2026-10-25-1-30")


def test_a_one_off_and_a_manual_run_have_keys_of_their_own() -> None:
    uuid = UUID("0b6b0f3e-6f0c-4c0c-9a53-0d5f7a3a2a11")

    assert once_key(datetime(2025, 12, 15, 15, 0, tzinfo=UTC)) == "once-2025-12-15-15-0"
    assert manual_key(uuid) == "manual-0b6b0f3e-6f0c-4c0c-9a53-0d5f7a3a2a11"


@pytest.mark.parametrize(
    ("ago", "changed", "concerned"),
    [
        (60, timedelta(seconds=61), True),
        (60, timedelta(seconds=60), False),
        (LONGEST_AGO.total_seconds(), timedelta(days=9), True),
        (LONGEST_AGO.total_seconds() + 1, timedelta(days=9), False),
    ],
)
def test_a_boot_concerns_what_was_there_before_it_for_a_day(
    ago: float, changed: timedelta, *, concerned: bool
) -> None:
    assert (Boot("b", ago=ago).why_not(NOON - changed, now=NOON) is None) is concerned


@pytest.mark.parametrize("delivery", [{}, {"instant": False}, {"instant": True}, {"to": "me"}])
def test_a_delivery_becomes_instant(delivery: dict[str, object]) -> None:
    params = {"controller": "X", "options_interface": {"delivery": delivery, "a": 1}}

    assert force_instant(params) == {
        "controller": "X",
        "options_interface": {"delivery": {**delivery, "instant": True}, "a": 1},
    }


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"options_interface": {"delivery": None}},
        {"options_interface": [{"delivery": {}}]},
        [{"options_interface": {"delivery": {}}}],
        "text",
    ],
)
def test_anything_else_stays_as_it_is(params: object) -> None:
    assert force_instant(params) == params


@pytest.mark.parametrize(
    ("name", "done", "failed"),
    [("emails", 100, 500), ("webhooks", 500, 1_000), ("payments", 1_000, 5_000)],
)
def test_the_original_classes_keep_so_many(name: str, done: int, failed: int) -> None:
    assert BUILT_IN_CLASSES[name].keep == Keep(done=done, failed=failed)


ONE, TWO, UNHEARD = TaskRef("worker", 1), TaskRef("worker", 2), TaskRef("worker", 9)


def task(name: str, ref: TaskRef, source: str | None = "shop") -> Task:
    return Task(name=name, ref=ref, command=("true",), source=source)


BACKUP, SWEEP = task("backup", ONE), task("sweep", TWO)
HEARS = attrs.evolve(task("hears", TaskRef("worker", 3)), topics=("due", "paid"))
CATALOG = Catalog([BACKUP, SWEEP, HEARS])


@pytest.mark.parametrize(
    ("ref", "said", "found"),
    [
        (ONE, {"source": "shop", "name": "backup"}, BACKUP),
        (UNHEARD, {"source": "shop", "name": "sweep"}, SWEEP),  # the file numbers it anew
        (TWO, {"source": "shop"}, SWEEP),
        *((ONE, {"source": each, "topic": "paid"}, HEARS) for each in ("shop", None, "garden")),
    ],
)
def test_a_run_is_found_by_its_name_its_number_or_its_topic(
    ref: TaskRef, said: dict[str, str | None], found: Task
) -> None:
    assert CATALOG.find(ref, **said) is found


def test_an_assigned_number_never_changes() -> None:
    assert assigned_number("jobs.toml", "backup") == 1_168_272_980


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("shop", MissingKind.UNHEARD),
        (None, MissingKind.UNHEARD),
        ("garden", MissingKind.FOREIGN),  # a worker of that file may have the listener
    ],
)
def test_an_event_without_a_listener_is_told_with_what_they_listen_to(
    source: str | None, kind: MissingKind
) -> None:
    answer = CATALOG.find(ONE, source=source, topic="lost")

    assert isinstance(answer, MissingTask)
    assert answer.kind is kind
    if kind is MissingKind.UNHEARD:
        assert "listens to lost; they listen to: due, paid" in str(answer)

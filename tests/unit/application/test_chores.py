"""What a scheduler does beside the claiming: cleanup, probes of the lanes, replays."""

from datetime import datetime, timedelta

import pytest

from cronhare.adapters.memory.broker import MemoryInspection
from cronhare.application.scheduling.chores import BackgroundExecutor, probe_lanes
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.orders import BackfillOrder
from cronhare.domain.topology import LANES, MAIN_QUEUE
from cronhare.ports import LedgerUnavailable
from cronhare.ports.inspection import (
    LaneReport,
    LaneState,
)
from cronhare.ports.records import ExecutionFilter, Retention
from tests.unit.application.conftest import Lines
from tests.unit.application.house import NOON, House, Inline
from tests.unit.executions import execution

DAY = timedelta(days=1)
ALMOST_THREE = NOON.replace(hour=2, minute=59)


def cleanups(house: House) -> list[Execution]:
    found = house.records.executions(ExecutionFilter(schedule="cronhare-cleanup", limit=100))
    return list(reversed(found))


async def test_it_cleans_up_at_three_o_clock_utc_without_any_worker(lines: Lines) -> None:
    house = House(start=ALMOST_THREE)
    house.dispatcher.tick(house.now)
    house.clock.advance(timedelta(minutes=1))

    house.dispatcher.tick(house.now)

    [cleanup] = cleanups(house)
    assert (cleanup.state, cleanup.key) == (State.SUCCEEDED, "cron-2026-3-2-3-0")
    assert house.broker.depth(MAIN_QUEUE) == 0
    assert "[INFO] [CLEANUP] ✓ Deleted 0 execution records older than 30 days" in lines()
    [output] = house.records.output(cleanup.id)
    assert output.stdout.head.startswith("[CLEANUP]")


async def test_a_cleanup_without_a_ledger_is_tried_again_after_ten_minutes() -> None:
    house = House(start=ALMOST_THREE)
    house.dispatcher.tick(house.now)
    house.clock.advance(timedelta(minutes=1))
    house.outage.begin("clean_up", calls=1)
    house.dispatcher.tick(house.now)
    [failed] = cleanups(house)

    house.clock.advance(timedelta(minutes=10, seconds=5))
    house.reconciler.tick(house.now)

    [cleanup] = cleanups(house)
    assert (failed.state, failed.next_attempt_at) == (
        State.RETRYING,
        ALMOST_THREE + timedelta(minutes=11),
    )
    assert (cleanup.state, cleanup.attempt) == (State.SUCCEEDED, 2)


def test_by_default_it_keeps_as_much_as_the_originals_do() -> None:
    assert Retention() == Retention(
        completed=timedelta(seconds=604_800),
        completed_rows=1_000,
        failed=timedelta(seconds=2_592_000),
        others=30 * DAY,
    )


@pytest.mark.parametrize("error", [LedgerUnavailable("away"), RuntimeError("a bug")])
def test_what_goes_wrong_in_the_background_is_said(error: Exception, lines: Lines) -> None:
    def run(_execution: Execution, _now: datetime) -> None:
        raise error

    BackgroundExecutor(run, executor=Inline()).begin(execution(), NOON)

    [line] = [line for line in lines() if line.startswith("[ERROR]")]
    assert "will be tried again" in line


def test_a_broken_lane_is_said_loudly_and_says_who_has_the_cure(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [LaneReport(lane, LaneState.OPEN) for lane in range(LANES)]
    found[7] = LaneReport(7, LaneState.BROKEN)
    broker = MemoryInspection()
    monkeypatch.setattr(broker, "probe", lambda: found)

    probe_lanes(broker)

    [line] = lines()
    assert line.startswith("[ERROR] What enters cron_scheduler_retry.07 does not come out")
    assert "`cronhare doctor --probe`" in line


async def backfill(
    house: House, *, seconds: float, rate: float, at_once: int, works: bool = True
) -> list[datetime]:
    """Let a scheduler take a backfill on, and a worker if it *works*; answers when it looked."""
    await house.open()
    house.add()
    await house.turn()
    [stored] = house.schedules.schedules(["report"])
    order = BackfillOrder(
        scheduler_id=stored.id,
        schedule="report",
        since=house.now - DAY,
        until=house.now,
        rate=rate,
        at_once=at_once,
    )
    house.container.replay_store().order(order, now=house.now)
    replayer, looks = house.container.replayer(random_fraction=lambda: 0.5), list[datetime]()
    rests_until, ends_at = house.now, house.now + timedelta(seconds=seconds)
    while house.now < ends_at:
        house.clock.advance(timedelta(milliseconds=50))
        if house.now >= rests_until:
            looks.append(house.now)
            rests_until = house.now + timedelta(seconds=replayer.round())
        if works:
            await house.work()
    return looks


@pytest.mark.parametrize(("rate", "at_once", "expected"), [(10, 1, 20), (2, 5, 8)])
async def test_places_that_runs_of_a_backfill_leave_are_filled_soon(
    rate: float, at_once: int, expected: int
) -> None:
    house = House()

    await backfill(house, seconds=5, rate=rate, at_once=at_once)

    assert expected <= len(house.executions(State.SUCCEEDED)) <= 5 * rate + 1


async def test_while_no_run_of_a_backfill_ends_it_is_looked_once_a_second() -> None:
    looks = await backfill(House(), seconds=20, rate=20, at_once=3, works=False)

    assert looks[-1] - looks[-2] == timedelta(seconds=1)
    assert len(looks) < 25

from datetime import timedelta

from cronhare.domain.execution import Execution, State
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.records import ExecutionFilter, Retention
from tests.unit.application.conftest import Lines
from tests.unit.application.house import NOON, House

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

"""What ran at the same time."""

from datetime import UTC, datetime, timedelta

from cronhare.application.reports.overlaps import STEPS, LaneBy, Overlaps, Tone, overlaps
from cronhare.ports.records import Ran

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
WINDOW = timedelta(minutes=STEPS)


def ran(
    name: str, since: float, until: float | None, *, ending: str = "succeeded", id_: int = 1
) -> Ran:
    """An attempt that ran from a minute of the window to another one."""
    return Ran(
        execution_id=id_,
        attempt=1,
        scheduler_id=1,
        schedule_name=name,
        node="ant",
        started_at=NOON + timedelta(minutes=since),
        finished_at=None if until is None else NOON + timedelta(minutes=until),
        ending=None if until is None else ending,
    )


def laid_out(*found: Ran, most: int = 9, now: float = STEPS) -> Overlaps:
    return overlaps(
        found,
        since=NOON,
        until=NOON + WINDOW,
        now=NOON + timedelta(minutes=now),
        by=LaneBy.SCHEDULE,
        most=most,
    )


def test_attempts_of_a_schedule_share_a_lane_and_the_busiest_comes_first() -> None:
    found = laid_out(ran("a", 0, 10), ran("b", 0, 30), ran("a", 50, 55))

    assert [(lane.name, lane.attempts, lane.busy) for lane in found.lanes] == [
        ("b", 1, timedelta(minutes=30)),
        ("a", 2, timedelta(minutes=15)),
    ]


def test_the_peak_is_the_most_at_once() -> None:
    found = laid_out(ran("a", 0, 10), ran("b", 5, 20), ran("c", 8, 9), ran("d", 20, 21))

    assert (found.peak, found.peak_at) == (3, NOON + timedelta(minutes=8))
    assert found.running[:12] == [1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 2, 1]
    assert found.running[20:23] == [1, 1, 0]


def test_what_is_partly_outside_is_cut_and_what_runs_ends_now() -> None:
    [lane] = laid_out(ran("a", -10, 10), ran("a", 100, None), now=120).lanes

    assert [(bar.since, bar.until, bar.tone) for bar in lane.bars] == [
        (NOON, NOON + timedelta(minutes=10), Tone.SUCCEEDED),
        (NOON + timedelta(minutes=100), NOON + timedelta(minutes=120), Tone.RUNNING),
    ]


def test_bars_too_close_to_be_told_apart_are_one_and_a_failure_stays_one() -> None:
    short = 0.01
    found = laid_out(
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

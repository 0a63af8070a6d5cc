"""Two months on the frozen clock, with failures, restarts and the hour that comes twice."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronhare.domain.cron import CronExpression
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.ports.records import Retention
from cronhare.ports.runner import Invocation
from tests.unit.application.house import House

START = datetime(2026, 10, 1, tzinfo=UTC)
END = datetime(2026, 12, 1, tzinfo=UTC)

FOR_EVER = Retention(
    completed=timedelta(days=1_000), completed_rows=100_000, failed=timedelta(days=1_000)
)

SCHEDULES = {
    "nightly": ("30 2 * * *", "Europe/Berlin"),
    "nightly-autumn": ("30 1 * * *", "America/New_York"),
    "sundays": ("0 */6 * * SUN", "Australia/Lord_Howe"),
    "weekly": ("15 9 * * MON", "Asia/Kolkata"),
    "monthly": ("0 17 LW * *", "America/Santiago"),
    "leap": ("0 0 29 2 *", "UTC"),
    "second-friday": ("45 23 * * FRI#2", "Pacific/Chatham"),
}


class Chaos:
    """Ends attempts as a seeded die falls."""

    def __init__(self, seed: int) -> None:
        self.die = random.Random(seed)

    def __call__(self, _: Invocation) -> Outcome:
        throw = self.die.random()
        if throw < 0.6:
            return Outcome(ending=Ending.SUCCEEDED, exit_code=0)
        if throw < 0.97:
            error = TaskError(message="Connection timeout", code="ETIMEDOUT")
            return Outcome(ending=Ending.FAILED, exit_code=1, error=error)
        return Outcome(ending=Ending.CRASHED, signal=11, error=TaskError(message="SIGSEGV"))


async def test_each_due_instant_runs_once_whatever_fails_or_is_restarted() -> None:
    chaos = Chaos(seed=20_260_101)
    house = House(script=chaos, start=START - timedelta(minutes=1), retention=FOR_EVER)
    for name, (schedule, timezone) in SCHEDULES.items():
        house.add(name, schedule=schedule, timezone=timezone)
    await house.open()
    await house.turn()

    await live_until(house, END - timedelta(minutes=1), chaos.die)
    await settle(house)

    executions = house.executions()
    assert due_instants(executions) == expected_instants()
    assert {execution.state for execution in executions} <= {
        State.SUCCEEDED,
        State.FAILED,
        State.QUARANTINED,
    }
    assert starts_per_attempt(house, executions) == {1}
    assert house.executions(State.FAILED), "some failed for good"
    assert any(execution.attempt > 2 for execution in house.executions(State.SUCCEEDED))


async def live_until(house: House, end: datetime, die: random.Random) -> None:
    """Wake as the scheduler would, and now and then lose the process or all of its messages."""
    while house.now < end:
        wake_at = min(next_event(house), end)
        await house.turn(max(wake_at - house.now, timedelta(0)))
        throw = die.random()
        if throw < 0.015:
            await house.restart()
        elif throw < 0.045:
            house.broker.drop_all()


async def settle(house: House) -> None:
    """Let the last retries come to their end."""
    for _ in range(2_000):
        if not house.claims.unfinished(after=0, limit=1):
            return
        await house.turn(timedelta(minutes=1))
    raise AssertionError("something is stuck")


def next_event(house: House) -> datetime:
    """Find the next due instant, or the next time at which something waits to be done."""
    pending = house.claims.unfinished(after=0, limit=1)
    waits = [house.now + timedelta(minutes=1)] if pending else []
    due = house.claims.next_due()
    return min([*waits, due or END])


def due_instants(executions: list[Execution]) -> Counter[tuple[str, datetime]]:
    return Counter((execution.schedule_name, execution.due_at) for execution in executions)


def expected_instants() -> Counter[tuple[str, datetime]]:
    expected: Counter[tuple[str, datetime]] = Counter()
    for name, (schedule, timezone) in SCHEDULES.items():
        upcoming = CronExpression.parse(schedule).upcoming(
            START - timedelta(minutes=1), ZoneInfo(timezone)
        )
        for instant in takewhile(lambda due: due < END, upcoming):
            expected[name, instant] += 1
    return expected


def starts_per_attempt(house: House, executions: list[Execution]) -> set[int]:
    starts = Counter(
        (attempt.execution_id, attempt.attempt)
        for execution in executions
        for attempt in house.records.attempts(execution.id)
    )
    return set(starts.values())

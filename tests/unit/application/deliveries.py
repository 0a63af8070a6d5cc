"""Ways to bring one attempt about, shared by the tests of the worker."""

import json
from datetime import timedelta
from itertools import pairwise
from typing import Any

from cronhare.domain.execution import Execution
from cronhare.domain.schedules.planning import HEAD_START, plan
from tests.ports import ids_of
from tests.unit.application.house import House

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
STRANGE_ID = 999_999


def due(house: House, **changes: Any) -> None:  # noqa: ANN401
    """Publish the only run of a schedule; no worker has looked yet.

    While the broker is away it is claimed alone, once others would have been first.
    """
    house.add(schedule="1 12 2 3 *", **changes)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    if not house.broker.is_reachable():
        house.clock.advance(HEAD_START)
    house.dispatcher.tick(house.now)


async def run(house: House, **changes: Any) -> None:  # noqa: ANN401
    """Let the only run of a schedule have its first attempt."""
    due(house, **changes)
    await house.open()
    await house.work()


async def begin(house: House, **changes: Any) -> None:  # noqa: ANN401
    """Let the only run of a schedule begin, in a house whose attempts are held."""
    due(house, **changes)
    await house.open_wide()
    await house.settle()


async def both_begin(house: House) -> tuple[int, int]:
    """Let two runs begin, in a house whose attempts are held."""
    house.add("one", schedule="1 12 2 3 *")
    await begin(house)
    one, other = house.executions()
    return one.id, other.id


async def live(house: House, duration: timedelta, step: timedelta = 5 * SECOND) -> None:
    """Let time pass for worker and reconciler, which looks as often as a scheduler's does."""
    ends = house.now + duration
    while house.now < ends:
        await house.turn(min(step, ends - house.now))


def waits(house: House) -> list[float]:
    """Tell how long each attempt after the first had to wait, in seconds."""
    attempts = house.records.attempts(house.only.id)
    pairs = pairwise(attempts)
    return [(b.started_at - (a.finished_at or b.started_at)).total_seconds() for a, b in pairs]


def foreign_body(house: House, **changes: object) -> bytes:
    """Write the task message for the schedule `report`, as somebody else would."""
    fields = {
        "type": "report",
        "id": 25,
        "scheduler_id": ids_of(house.schedules, ["report"]).get("report", STRANGE_ID),
        "params_scheduler": '{"a":1}',
    }
    return json.dumps({**fields, **changes}, separators=(",", ":")).encode()


async def deliver(
    house: House,
    body: bytes,
    headers: dict[str, object] | None = None,
    *,
    message_id: str | None = None,
) -> None:
    """Let the worker have somebody else's message."""
    house.publish(body, headers, message_id=message_id)
    await house.open()
    await house.work()


def systems_own(house: House) -> Execution:
    """Claim the daily cleanup, and leave it to somebody else."""
    house.dispatcher.tick(house.now)
    house.clock.advance(timedelta(hours=15, minutes=1))
    batch = house.claims.claim_due(
        now=house.now, limit=9, node="bee-1", planner=lambda planned: plan(planned, house.now)
    )
    [cleanup] = (row for row in batch.claimed if row.task.is_system)
    return cleanup

"""How soon after a minute has begun a scheduler is at its work: in the ledger, and in the queue."""

import statistics
import time
from datetime import UTC, datetime

import attrs

from cronhare.domain.topology import MAIN_QUEUE
from tests.integration import amqp
from tests.production.plant import SCHEDULER, Plant

SCHEDULES = 100

#: Every minute, and nobody runs them: their messages are taken here, as soon as they come.
JOBS = '[tasks.none]\nid = 1\ncommand = ["/bin/true"]\n' + "".join(
    f'[schedules.s{n}]\ntask = "none"\nschedule = "* * * * *"\n' for n in range(SCHEDULES)
)

_CLAIMS = (
    "SELECT due_at, MIN(executed_at), COUNT(*) FROM SchedulerExecution "
    "WHERE task_type <> 'system' GROUP BY due_at ORDER BY due_at"
)


@attrs.frozen
class Minute:
    """When a minute's work began, and when its first and its last message came; in ms after it."""

    begun: float
    first: float
    last: float


def measure(plant: Plant, *, minutes: int) -> list[Minute]:
    """Watch a scheduler for so many whole minutes.

    Raises:
        TimeoutError: messages are missing.
        AssertionError: a minute has more or fewer executions than there are schedules.
    """
    plant.start(*SCHEDULER)
    plant.wait_until_declared()
    came = _take(plant, SCHEDULES * minutes, seconds=60 * (minutes + 1) + 30)
    plant.stop()
    claims = plant.query(_CLAIMS)
    assert [many for _, _, many in claims] == [SCHEDULES] * minutes, claims
    measured = []
    for n, (due, begun, _) in enumerate(claims):
        minute = due.replace(tzinfo=UTC)
        first, *_, last = came[n * SCHEDULES : (n + 1) * SCHEDULES]
        moments = begun.replace(tzinfo=UTC), first, last
        measured.append(Minute(*((each - minute).total_seconds() * 1000 for each in moments)))
    return measured


def _take(plant: Plant, many: int, *, seconds: float) -> list[datetime]:
    """Take so many messages from the queue; give the moments at which they came."""
    came: list[datetime] = []
    give_up_at = time.monotonic() + seconds
    with amqp.channel(plant.broker_url) as plain:
        for method, _, _ in plain.consume(MAIN_QUEUE, auto_ack=True, inactivity_timeout=1):
            if method is not None:
                came.append(datetime.now(UTC))
            if len(came) == many:
                return came
            if time.monotonic() > give_up_at:
                break
    raise TimeoutError(f"{len(came)} of {many} messages came within {seconds:.0f} s")


def tell(minutes: list[Minute]) -> None:
    """Print how late they were."""
    print(
        f"\n{len(minutes)} minutes with {SCHEDULES} schedules due in each, in ms after the minute"
    )
    for what in ("begun", "first", "last"):
        late = sorted(getattr(each, what) for each in minutes)
        print(f"{what:>6}: {statistics.median(late):.0f} at the median, {late[-1]:.0f} at the most")

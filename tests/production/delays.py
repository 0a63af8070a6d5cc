"""How long retries wait, as their tasks see it: from the end of one attempt to the next begin."""

import random
import statistics
from collections import defaultdict
from pathlib import Path

import attrs

from cronhare.domain.execution import State
from cronhare.domain.retries.policy import Backoff, RetryPolicy
from cronhare.ports.records import ExecutionFilter
from tests.production.plant import PATIENCE, SCHEDULER, Plant
from tests.services.finding import wait_until

#: What holds for schedules without a policy of their own, which may not wait less than a second.
SHORT = RetryPolicy(attempts=4, backoff=Backoff(delay=100, multiplier=2.0))
SETTINGS = {
    "CRON_MAX_RETRIES": str(SHORT.max_retries),
    "CRON_RETRY_DELAY_MS": str(SHORT.backoff.delay),
    "CRON_RETRY_DELAY_MULTIPLIER": str(SHORT.backoff.multiplier),
    "CRON_RETRY_BUDGET": "off",  # 200 retries at once are beyond the default
}

#: Notes the time when it begins and when it ends, and always fails.
TASK = """
[tasks.notes]
id = 1
command = ["/bin/sh", "-c", '''
date "+$CRON_EXECUTION_ID %s.%N" >> "$NOTES"
date "+$CRON_EXECUTION_ID %s.%N" >> "$NOTES"
exit 1
''']
"""


#: How many schedules the jobs files have.
GROWING, MIXED = 3, 180


@attrs.frozen(order=True)
class Wait:
    """One wait: how many milliseconds later than promised it ended; what was promised, in ms."""

    late: float
    promised: float


def growing(folder: Path) -> str:
    """Write a jobs file: three schedules whose retries wait 1, 2 and 4 s."""
    backoff = "{ type = 'exponential', delay = 1000, multiplier = 2.0 }"
    return _jobs(folder, [f"{{ attempts = 4, backoff = {backoff} }}"] * GROWING)


def mixed(folder: Path, rng: random.Random) -> str:
    """Write a jobs file for 200 waits between 0.1 and 20 s: one of 170, and three of ten."""
    delays = [rng.randint(1_000, 20_000) for _ in range(MIXED - 10)]
    own = [f"{{ attempts = 2, backoff = {{ type = 'fixed', delay = {ms} }} }}" for ms in delays]
    return _jobs(folder, [*own, *[None] * 10])


def _jobs(folder: Path, policies: list[str | None]) -> str:
    parts = [TASK + f'env = {{ NOTES = "{folder / "notes"}" }}\n']
    for n, policy in enumerate(policies, start=1):
        retry = f"retry = {policy}\n" if policy else ""
        parts.append(f'[schedules.s{n}]\ntask = "notes"\nschedule = "@yearly"\n{retry}')
    return "\n".join(parts)


def measure(plant: Plant, *, schedules: int) -> list[Wait]:
    """Ask for a run of each schedule at once; give the waits of all of them, the least late first.

    Raises:
        TimeoutError: some attempt did not come.
    """
    plant.start(*SCHEDULER)
    plant.start_worker(concurrency=16)
    plant.wait_until_all_work(workers=1)
    asked = plant.arena.ask_for_runs(schedules)
    over = ExecutionFilter(states={State.FAILED}, limit=1_000)
    wait_until(
        lambda: len(plant.arena.records.executions(over)) == len(asked),
        seconds=PATIENCE,
        every=0.5,
        what=f"the failure of {len(asked)} runs",
    )
    plant.stop()
    return sorted(_waits(plant))


def _waits(plant: Plant) -> list[Wait]:
    notes = defaultdict[int, list[float]](list)
    for line in (plant.arena.folder / "notes").read_text().splitlines():
        id_, seconds = line.split()
        notes[int(id_)].append(float(seconds))
    waits = []
    for execution in plant.arena.executions():
        policy = execution.retry or SHORT
        begins, ends = notes[execution.id][0::2], notes[execution.id][1::2]
        assert len(begins) == policy.attempts, "an attempt is missing, or came twice"
        for n, (end, begin) in enumerate(zip(ends, begins[1:], strict=False), start=1):
            promised = policy.backoff.wait(n).total_seconds()
            waits.append(Wait((begin - end - promised) * 1000, promised * 1000))
    return waits


def tell(what: str, waits: list[Wait]) -> None:
    """Print how late they were."""
    late = [each.late for each in waits]
    p90 = late[int(len(late) * 0.9)]
    print(
        f"\n{what}: {len(late)} waits, {late[0]:.0f} ms late at the least, "
        f"{statistics.median(late):.0f} at the median, {p90:.0f} p90, {late[-1]:.0f} at the most"
    )

"""The step-through of S4.1 and S4.2 in docs/compatibility.md, with a class and nothing else set."""

from datetime import timedelta
from pathlib import Path

from cronhare.adapters.jobs.reader import read_jobs
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.domain.execution import State
from cronhare.domain.retries.policy import RetryPolicy
from tests.actors import ADA
from tests.unit.application.deliveries import MINUTE
from tests.unit.application.endings import always, failure
from tests.unit.application.house import House

FILE = """
[tasks.job]
id = 1
command = ["true"]
class = "lease-style"

[schedules.job]
task = "job"
schedule = "* * * * *"
"""


def seen(house: House) -> ExecutionView:
    return ExecutionView.of(house.only, now=house.now)


def milliseconds_left(view: ExecutionView, house: House) -> float | None:
    if view.next_attempt_at is None:
        return None
    return (view.next_attempt_at - house.now) / timedelta(milliseconds=1)


async def test_a_job_that_fails_each_time_goes_the_original_way(tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(FILE)
    file = read_jobs(path, policy=RetryPolicy())
    house = House(script=always(failure()), tasks=file.tasks)
    house.applier.apply(file, actor=ADA)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)

    steps = [(seen(house).status, seen(house).deaths, milliseconds_left(seen(house), house))]
    house.schedules.save([], source=None, now=house.now, disabled=["job"])
    await house.open()
    for _ in range(4):
        await house.work()
        view = seen(house)
        left = milliseconds_left(view, house)
        steps.append((view.status, view.deaths, left))
        house.clock.advance(timedelta(milliseconds=left or 0))

    assert file.tasks[0].timeout == timedelta(milliseconds=300_000)
    assert steps == [
        ("waiting", 0, 0.0),
        ("failed", 1, 600_000),
        ("failed", 2, 1_200_000),
        ("failed", 3, 1_800_000),
        ("terminated", 3, None),
    ]
    assert (house.only.state, seen(house).completed_at) == (State.FAILED, None)

"""Which retry policy counts, in a worker and where its worker has vanished."""

from datetime import timedelta
from pathlib import Path

import attrs
import pytest

from cronhare.adapters.jobs.reader import JobsFile, read_jobs
from cronhare.domain.execution import State
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.retries.policy import POLICIES, RetryPolicy
from cronhare.domain.schedules.task import TaskPolicy
from cronhare.ports.attempts import StartRequest
from tests.actors import ADA
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import MINUTE
from tests.unit.application.endings import always, failure
from tests.unit.application.house import LEASE, REPORT, House

FILE = """
[defaults]
retry = {{ attempts = {attempts} }}

[tasks.daily-report]
type = "report"
id = 25
command = ["true"]

[schedules.report]
task = "daily-report"
schedule = "* * * * *"
"""


def jobs(folder: Path, attempts: int) -> JobsFile:
    path = folder / "jobs.toml"
    path.write_text(FILE.format(attempts=attempts))
    return read_jobs(path, policy=RetryPolicy())


def house_of(outcome: Outcome, policy: TaskPolicy) -> House:
    return House(script=always(outcome), tasks=[attrs.evolve(REPORT, policy=policy)])


async def run(house: House) -> None:
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)
    await house.open()
    await house.work()


def wait_of(house: House) -> timedelta | None:
    begins = house.only.next_attempt_at
    return None if begins is None else begins - house.now


async def test_a_row_without_a_policy_has_that_of_its_tasks_class(lines: Lines) -> None:
    house = house_of(failure(), TaskPolicy(retry=POLICIES["payments"]))
    house.add()

    await run(house)

    assert wait_of(house) == timedelta(seconds=60)
    assert any("Scheduling retry 1/2 in 60000ms" in line for line in lines())


async def test_a_schedules_own_policy_goes_before_that_of_the_class() -> None:
    house = house_of(failure(), TaskPolicy(retry=POLICIES["payments"]))
    house.add(retry=POLICIES["emails"])

    await run(house)

    assert wait_of(house) == timedelta(seconds=2)


def test_an_attempt_whose_worker_vanished_has_the_policy_of_its_file(tmp_path: Path) -> None:
    house = House()
    house.applier.apply(jobs(tmp_path, 1), actor=ADA)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)
    request = StartRequest(execution_id=house.only.id, attempt=1, nacks=None)
    house.attempts.start([request], now=house.now, node="gone-3", lease=LEASE)

    house.clock.advance(LEASE)
    house.reconciler.tick(house.now)

    assert house.only.state is State.FAILED


def key_error() -> Outcome:
    error = TaskError(message="KeyError: 'x'", types=("KeyError", "LookupError"))
    return Outcome(ending=Ending.FAILED, exit_code=1, error=error)


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (key_error(), "KeyError"),
        (failure(code="EBAD"), "EBAD"),
        (attrs.evolve(failure(), exit_code=78), "exit:78"),
    ],
)
async def test_an_error_that_the_file_calls_permanent_is_not_retried(
    outcome: Outcome, name: str
) -> None:
    house = house_of(outcome, TaskPolicy(errors={name: ErrorClass.PERMANENT}))
    house.add()

    await run(house)

    assert (house.only.state, house.only.attempt) == (State.FAILED, 1)
    [attempt] = house.records.attempts(house.only.id)
    assert '"error_class":"permanent"' in str(attempt.error)

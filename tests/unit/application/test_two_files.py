"""Two jobs files on one ledger: no worker ever runs a command of the other's."""

from datetime import timedelta

import attrs
import pytest

from cronhare.domain.execution import State
from cronhare.domain.schedules.catalog import ONE_FILE_EACH
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.topology import MAIN_QUEUE
from tests.actors import ADA
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import MINUTE, deliver, foreign_body, live
from tests.unit.application.endings import Seen
from tests.unit.application.house import House

WORKER_1 = TaskRef("worker", 1)
OURS = Task(name="echo", source="jobs.toml", ref=WORKER_1, command=("ours",))


def house_of(seen: Seen, *tasks: Task) -> House:
    return House(script=seen, tasks=tasks or (OURS,))


def save(house: House, source: str | None, task_name: str | None, **changes: object) -> None:
    draft = ScheduleDraft(name="report", task=WORKER_1, task_name=task_name, schedule="1 12 2 3 *")
    house.schedules.save([attrs.evolve(draft, **changes)], source=source, now=house.now)  # type: ignore[arg-type]


async def run(house: House, source: str | None, task_name: str | None, **changes: object) -> None:
    save(house, source, task_name, **changes)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)
    await house.open()
    await house.work()


def commands(seen: Seen) -> list[tuple[str, ...]]:
    return [invocation.task.command for invocation in seen.invocations]


@pytest.mark.parametrize("task_name", ["echo", None])
async def test_a_run_of_another_file_fails_for_good_and_says_what_to_do(
    lines: Lines, task_name: str | None
) -> None:
    seen = Seen()
    house = house_of(seen)

    await run(house, "user.toml", task_name)

    assert commands(seen) == []
    assert (house.only.state, house.only.attempt) == (State.FAILED, 1)
    reason = str(house.only.last_error)
    assert f"queue {MAIN_QUEUE} led it to the wrong worker" in reason
    assert "is of user.toml, and this worker has the tasks of jobs.toml" in reason
    assert ONE_FILE_EACH in reason
    assert any("user.toml" in line and "[ERROR]" in line for line in lines())


async def test_its_replay_runs_once_the_right_worker_has_the_queue() -> None:
    seen = Seen()
    house = house_of(seen)
    await run(house, "user.toml", "echo")
    [archived] = house.records.archive()
    theirs = attrs.evolve(OURS, source="user.toml", command=("theirs",))
    house.tasks = (theirs,)
    await house.restart()

    house.administrator.replay([archived.id], actor=ADA)
    await house.turn()

    assert (house.only.state, commands(seen)) == (State.SUCCEEDED, [("theirs",)])


@pytest.mark.parametrize("number", [1, 2])
async def test_a_foreign_message_cannot_cross_over_by_any_number(number: int) -> None:
    seen = Seen()
    house = house_of(seen, OURS, attrs.evolve(OURS, name="other", ref=TaskRef("worker", 2)))
    save(house, "user.toml", "echo", schedule=None)

    await deliver(house, foreign_body(house, type="worker", id=number))

    assert commands(seen) == []
    assert house.only.state is State.FAILED
    assert "is of user.toml" in str(house.only.last_error)


async def test_a_foreign_message_runs_the_task_that_it_numbers_in_its_schedules_file() -> None:
    seen = Seen()
    other = Task(name="other", source="jobs.toml", ref=TaskRef("worker", 2), command=("other",))
    house = house_of(seen, OURS, other)
    save(house, "jobs.toml", "echo", schedule=None)

    await deliver(house, foreign_body(house, type="worker", id=2))

    assert (house.only.state, commands(seen)) == (State.SUCCEEDED, [("other",)])


async def test_a_row_whose_number_was_changed_by_hand_runs_neither_task() -> None:
    seen = Seen()
    other = Task(name="other", source="jobs.toml", ref=TaskRef("worker", 2), command=("other",))
    house = house_of(seen, OURS, other)

    await run(house, "jobs.toml", "echo", task=other.ref)
    await live(house, timedelta(minutes=10), MINUTE)

    assert (house.only.state, commands(seen)) == (State.FAILED, [])
    assert "set task_name to NULL" in str(house.only.last_error)

"""A run whose task the worker lacks, or another file has."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import pytest

from cronhare.application.administration.story import explain_execution
from cronhare.application.worker import attempt
from cronhare.domain.execution import State
from cronhare.domain.schedules.catalog import ONE_FILE_EACH, Catalog
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.topology import MAIN_QUEUE
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import (
    MINUTE,
    SECOND,
    Seen,
    deliver,
    foreign_body,
    live,
    waits,
)
from tests.unit.application.house import House

OLD = Task(name="old", source="jobs.toml", ref=TaskRef("worker", 1), command=("true",))
NEW = attrs.evolve(OLD, name="new", ref=TaskRef("worker", 2))


@pytest.fixture
def seen() -> Seen:
    return Seen()


def save(house: House, of: Task, source: str = "jobs.toml", **changes: object) -> None:
    """Write the schedule of a task as its jobs file does."""
    draft = ScheduleDraft(name="report", task=of.ref, task_name=of.name, schedule="1 12 2 3 *")
    house.schedules.save([attrs.evolve(draft, **changes)], source=source, now=house.now)  # type: ignore[arg-type]


async def run(house: House, of: Task, source: str = "jobs.toml", **changes: object) -> None:
    """Let a run of the schedule of a task be due, at a worker that may lack the task."""
    save(house, of, source, **changes)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)
    await house.open()
    await house.work()


async def test_it_waits_for_a_worker_that_has_the_task_at_no_cost(seen: Seen) -> None:
    house = House(script=seen, tasks=[OLD])
    await run(house, NEW)
    await live(house, 5 * MINUTE, 2 * SECOND)
    waiting = house.only
    told = explain_execution(waiting, house.records.attempts(waiting.id), now=house.now)

    house.tasks = [OLD, NEW]
    await house.restart_worker()
    await live(house, MINUTE, 2 * SECOND)

    assert (house.only.state, house.only.deaths) == (State.SUCCEEDED, 0)
    assert waits(house) == [2, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert (waiting.state, told.answer) == (State.RETRYING, "No worker that took it has its task")
    assert "a worker that has its task, at most until 2026-03-02 12:11:00Z" in " ".join(
        told.because
    )


async def test_after_ten_minutes_it_fails_for_good_and_names_the_task_and_the_file(
    seen: Seen,
) -> None:
    house = House(script=seen, tasks=[OLD])

    await run(house, NEW)
    await live(house, 10 * MINUTE - 10 * SECOND, 5 * SECOND)
    await live(house, 9 * SECOND)
    before = house.only.state
    await live(house, 2 * SECOND)

    assert (before, house.only.state, house.only.deaths) == (State.RETRYING, State.FAILED, 0)
    reason = "this worker has no task new of jobs.toml; it has: old (worker 1): give its jobs file"
    assert str(house.only.last_error).startswith(reason)
    assert seen.invocations == []


async def fails(_: Catalog) -> None:
    raise RuntimeError("nobody thought of this")


async def hangs(_: Catalog) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("read", [fails, hangs])
async def test_a_file_that_cannot_be_read_again_is_no_crash_of_the_run(
    read: Callable[[Catalog], Awaitable[None]], monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(attempt, "READING", 0.01)
    house = House(tasks=[OLD], reads_again=read)

    await run(house, NEW)

    assert (house.only.state, house.only.crashes) == (State.RETRYING, ())
    assert any("The jobs file was not read again" in line for line in lines())


# Two jobs files on one ledger: no worker runs a command of the other's

OURS = attrs.evolve(OLD, name="echo", command=("ours",))


def commands(seen: Seen) -> list[tuple[str, ...]]:
    return [invocation.task.command for invocation in seen.invocations]


async def test_a_run_of_another_file_fails_for_good_and_says_what_to_do(lines: Lines) -> None:
    seen = Seen()
    house = House(script=seen, tasks=[OURS])

    await run(house, OURS, "user.toml")

    assert commands(seen) == []
    assert (house.only.state, house.only.attempt) == (State.FAILED, 1)
    reason = str(house.only.last_error)
    assert f"queue {MAIN_QUEUE} led it to the wrong worker" in reason
    assert "is of user.toml, and this worker has the tasks of jobs.toml" in reason
    assert ONE_FILE_EACH in reason
    assert any("user.toml" in line and "[ERROR]" in line for line in lines())


async def test_a_foreign_message_cannot_cross_over_by_a_number() -> None:
    seen = Seen()
    house = House(script=seen, tasks=[OURS])
    save(house, OURS, "user.toml", schedule=None)

    await deliver(house, foreign_body(house, type="worker", id=1))

    assert commands(seen) == []
    assert house.only.state is State.FAILED
    assert "is of user.toml" in str(house.only.last_error)


async def test_a_row_whose_number_was_changed_by_hand_runs_neither_task() -> None:
    seen = Seen()
    house = House(script=seen, tasks=[OURS, NEW])

    await run(house, OURS, task=NEW.ref)
    await live(house, timedelta(minutes=10), MINUTE)

    assert (house.only.state, commands(seen)) == (State.FAILED, [])
    assert "set task_name to NULL" in str(house.only.last_error)

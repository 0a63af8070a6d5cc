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
from cronhare.domain.schedules.conditions import Conditions
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


async def apply_new(house: House, conditions: Conditions | None = None) -> None:
    """Let a run of the new task be due, at a worker that has read the file before it was there."""
    draft = ScheduleDraft(name="new", task=NEW.ref, task_name="new", conditions=conditions)
    await apply(house, draft)


async def apply(house: House, draft: ScheduleDraft, source: str | None = "jobs.toml") -> None:
    """Let a run of a new schedule be due."""
    draft = attrs.evolve(draft, schedule="1 12 2 3 *")
    house.schedules.save([draft], source=source, now=house.now)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)
    await house.open()
    await house.work()


async def test_it_waits_for_a_worker_that_has_the_task_at_no_cost(seen: Seen) -> None:
    house = House(script=seen, tasks=[OLD])
    await apply_new(house)
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

    await apply_new(house)
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

    await apply_new(house)

    assert (house.only.state, house.only.crashes) == (State.RETRYING, ())
    assert any("The jobs file was not read again" in line for line in lines())


# Two jobs files on one ledger: no worker runs a command of the other's

WORKER_1 = TaskRef("worker", 1)
OURS = Task(name="echo", source="jobs.toml", ref=WORKER_1, command=("ours",))


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


async def test_a_run_of_another_file_fails_for_good_and_says_what_to_do(lines: Lines) -> None:
    seen = Seen()
    house = House(script=seen, tasks=[OURS])

    await run(house, "user.toml", "echo")

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
    save(house, "user.toml", "echo", schedule=None)

    await deliver(house, foreign_body(house, type="worker", id=1))

    assert commands(seen) == []
    assert house.only.state is State.FAILED
    assert "is of user.toml" in str(house.only.last_error)


async def test_a_row_whose_number_was_changed_by_hand_runs_neither_task() -> None:
    seen = Seen()
    other = Task(name="other", source="jobs.toml", ref=TaskRef("worker", 2), command=("other",))
    house = House(script=seen, tasks=[OURS, other])

    await run(house, "jobs.toml", "echo", task=other.ref)
    await live(house, timedelta(minutes=10), MINUTE)

    assert (house.only.state, commands(seen)) == (State.FAILED, [])
    assert "set task_name to NULL" in str(house.only.last_error)

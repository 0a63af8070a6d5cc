"""Who judges the judges: one broken promise of each kind is staged, and must be seen."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest
from sqlalchemy import delete, insert, update

from cronhare.adapters.sql.tables.tables import attempts, executions
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.limits import BudgetPolicy, OnExhausted
from cronhare.domain.schedules.planning import plan
from cronhare.domain.schedules.task import TaskRef
from tests.faults.arena import Arena
from tests.faults.jobs import MARK
from tests.faults.judging import Figures, judge
from tests.faults.limits.judging import Facts, Pause, Run, at_once_of, beyond, over, retried_in

pytestmark = pytest.mark.integration

RUNS = 4

#: Seconds of its minute that a test is to have: in the next one all schedules are due, unclaimed.
SPARE = 5.0

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    """An arena in which every run that was asked for has succeeded at its second attempt."""
    while time.time() % 60 > 60 - SPARE:
        time.sleep(0.1)
    arena = Arena(tmp_path, 1)
    arena.apply()
    arena.ask_for_runs(RUNS)
    now = arena.claims.now()
    arena.claims.plan_edited(
        now=now, since=None, limit=100, node="by-hand", planner=lambda one: plan(one, now)
    )
    every = [(row.id, number) for row in arena.executions() for number in (1, 2)]
    endings = {1: "failed", 2: "succeeded"}
    with arena.engine.begin() as connection:
        connection.execute(update(executions).values(state="succeeded", attempt=2))
        for id_, number in every:
            row = {"execution_id": id_, "attempt": number, "ending": endings[number]}
            connection.execute(insert(attempts).values(row | {"node": "n", "started_at": now}))
    arena.effects.write_text("".join(f"{id_} {number}\n" for id_, number in every))
    yield arena
    arena.close()


def verdict(arena: Arena) -> Figures:
    settled_at = arena.claims.now() + timedelta(seconds=1)
    return judge(arena, cycles=1, recoveries=[2.0, 1.0, 9.0], settled_at=settled_at)


def test_promises_that_were_kept_are_not_called_broken(arena: Arena) -> None:
    figures = verdict(arena)

    assert figures.broken == 0
    assert (figures.executions, figures.attempts, figures.retried) == (RUNS, 2 * RUNS, RUNS)
    assert figures.recovery == 2.0


def a_row_vanishes(arena: Arena) -> None:
    with arena.engine.begin() as connection:
        connection.execute(delete(executions).where(executions.c.id == arena.executions()[0].id))


def an_attempt_begins_twice(arena: Arena) -> None:
    first = arena.effects.read_text().splitlines()[0]
    with arena.effects.open("a") as record:
        record.write(f"{first}\n")


def a_row_does_not_end(arena: Arena) -> None:
    with arena.engine.begin() as connection:
        one = executions.c.id == arena.executions()[0].id
        connection.execute(update(executions).where(one).values(state="retrying"))


def a_process_ends_with_a_traceback(arena: Arena) -> None:
    (arena.logs / "a.log").write_text("KeyError: 'due'\n")


@pytest.mark.parametrize(
    ("break_it", "name"),
    [
        (a_row_vanishes, "lost"),
        (an_attempt_begins_twice, "doubled"),
        (a_row_does_not_end, "stuck"),
        (a_process_ends_with_a_traceback, "bugs"),
    ],
)
def test_the_judge_sees(arena: Arena, break_it: Callable[[Arena], None], name: str) -> None:
    break_it(arena)

    figures = verdict(arena)

    assert getattr(figures, name) >= 1
    assert figures.broken >= 1


def test_the_judge_sees_a_process_that_was_left_over(arena: Arena) -> None:
    id_ = str(arena.executions()[0].id)
    environment = {MARK: arena.mark, "CRON_EXECUTION_ID": id_, "CRON_ATTEMPT": "1"}
    left = subprocess.Popen(["/bin/sleep", "60"], env=environment)
    try:
        figures = verdict(arena)
    finally:
        left.kill()
        left.wait()

    assert (figures.orphans, figures.broken) == (1, 1)


def execution(id_: int, name: str) -> Execution:
    return Execution(
        id=id_,
        scheduler_id=1,
        schedule_name=name,
        task_name=name,
        key=f"every-{id_}",
        state=State.SUCCEEDED,
        task=TaskRef("worker", 1),
        params="{}",
        queue="spare",
        attempt=1,
        deaths=0,
        version=1,
        due_at=NOON,
        executed_at=NOON,
        container_id="ant",
    )


def run(name: str, attempt: tuple[int, int], begins: float, ends: float | None) -> Run:
    ended = None if ends is None else NOON + ends * SECOND
    return Run(name=name, attempt=attempt, begins=NOON + begins * SECOND, ends=ended)


def retries(*failed: float, name: str = "costly-0") -> Facts:
    """Runs that failed at these times, each with a retry that began soon."""
    executions, runs = list[Execution](), list[Run]()
    endings = dict[tuple[int, int], tuple[str | None, datetime | None]]()
    for id_, at in enumerate(failed, start=1):
        executions.append(execution(id_, name))
        endings[id_, 1] = ("failed", NOON + at * SECOND)
        endings[id_, 2] = ("succeeded", NOON + (at + 1) * SECOND)
        runs.append(run(name, (id_, 2), at, at + 1))
    return Facts(executions=executions, endings=endings, runs=runs, twice=0)


def of_runs(runs: Sequence[Run]) -> Facts:
    return Facts(executions=[], endings={}, runs=runs, twice=0)


def test_what_was_killed_keeps_its_place_until_it_is_given_up() -> None:
    runs = [run("two-0", (1, 1), 0, 5), run("two-1", (2, 1), 1, None), run("two-2", (3, 1), 4, 6)]
    facts = of_runs(runs)

    gone = attrs.evolve(facts, endings={(2, 1): ("lost", NOON + 3 * SECOND)})
    there = attrs.evolve(facts, endings={(2, 1): ("lost", NOON + 8 * SECOND)})

    assert (at_once_of(gone), over(at_once_of(gone))) == ({"two": 2}, 0)
    assert (at_once_of(there), over(at_once_of(there))) == ({"two": 3}, 1)


@pytest.mark.parametrize(("last", "seen"), [(4.0, 1), (5.0, 0)])
def test_a_retry_beyond_the_budget_of_any_window_is_seen(last: float, seen: int) -> None:
    fail = BudgetPolicy(most=2, window=5 * SECOND, on_exhausted=OnExhausted.FAIL)

    assert beyond(fail, retries(0, 3, last)) == seen


def test_a_retry_that_an_open_breaker_did_not_stop_is_seen() -> None:
    pause = Pause("costly-0", NOON, NOON + 3 * SECOND)

    assert retried_in([pause], retries(1.5)) == 1
    assert retried_in([pause], retries(3.5)) == retried_in([pause], retries(1.5, name="x")) == 0

"""Who judges the judge of limits: each broken promise is staged, and must be seen."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import attrs
import msgspec
import pytest

from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.limits import BudgetPolicy, OnExhausted
from cronhare.domain.schedules.task import TaskRef
from tests.faults.limits.judging import (
    Facts,
    Pause,
    at_once_of,
    beyond,
    doubled_of,
    lost_of,
    over,
    retried_in,
)
from tests.faults.limits.record import Run

pytestmark = pytest.mark.integration

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def execution(id_: int, name: str, *, at: float = 0.0) -> Execution:
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
        due_at=NOON + at * SECOND,
        executed_at=NOON,
        container_id="ant",
    )


def run(name: str, attempt: tuple[int, int], begins: float, ends: float | None) -> Run:
    ended = None if ends is None else NOON + ends * SECOND
    return Run(name=name, attempt=attempt, begins=NOON + begins * SECOND, ends=ended)


def retries(*failed: float, name: str = "costly-0", late: float = 0.0) -> Facts:
    """Runs that failed at these times, each with a retry that began soon, or *late*."""
    executions, runs = list[Execution](), list[Run]()
    endings = dict[tuple[int, int], tuple[str | None, datetime | None]]()
    for id_, at in enumerate(failed, start=1):
        executions.append(execution(id_, name))
        endings[id_, 1] = ("failed", NOON + at * SECOND)
        endings[id_, 2] = ("succeeded", NOON + (at + late + 1) * SECOND)
        runs.append(run(name, (id_, 2), at + late, at + late + 1))
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


def test_two_runs_of_a_schedule_that_runs_alone_are_one_too_many() -> None:
    facts = of_runs([run("skip", (1, 1), 0, 2), run("skip", (2, 1), 1, 3)])

    assert over(at_once_of(facts)) == 1
    assert over(at_once_of(of_runs([run("skip", (1, 1), 0, 1), run("skip", (2, 1), 1, 2)]))) == 0


@pytest.mark.parametrize(("last", "seen"), [(4.0, 1), (5.0, 0)])
def test_a_retry_beyond_the_budget_of_any_window_is_seen(last: float, seen: int) -> None:
    fail = BudgetPolicy(most=2, window=5 * SECOND, on_exhausted=OnExhausted.FAIL)

    assert beyond(fail, retries(0, 3, last)) == seen


@pytest.mark.parametrize(("late", "seen"), [(0.0, 1), (6.0, 0)])
def test_of_deferred_retries_no_more_may_begin_than_the_windows_so_far_allow(
    late: float, seen: int
) -> None:
    defer = BudgetPolicy(most=2, window=5 * SECOND)

    assert beyond(defer, retries(0, 0.1, 0.2, late=late)) == seen


def test_a_retry_that_an_open_breaker_did_not_stop_is_seen() -> None:
    pause = Pause("costly-0", NOON, NOON + 3 * SECOND)

    assert retried_in([pause], retries(1.5)) == 1
    assert retried_in([pause], retries(3.5)) == retried_in([pause], retries(1.5, name="x")) == 0


def test_what_is_owed_and_in_no_row_is_lost_and_what_is_there_twice_is_doubled() -> None:
    rows = [execution(1, "shut"), execution(2, "shut", at=1), execution(3, "shut", at=1)]
    facts = Facts(executions=rows, endings={}, runs=[], twice=0)
    skipped = msgspec.structs.replace(rows[0], missed=3, last_due_at=NOON + 2 * SECOND)

    between = NOON, NOON + SECOND * 2
    owed = lost_of(Facts(executions=[], endings={}, runs=[], twice=0), between)
    assert owed - lost_of(facts, between) == 2
    assert owed - lost_of(attrs.evolve(facts, executions=[skipped]), between) == 3
    assert doubled_of(facts) == 1
    assert doubled_of(of_runs([run("shut", (1, 1), 0, 1)])) == 1

"""Who judges the judge: each broken promise is staged, and must be seen."""

import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, update

from cronhare.adapters.sql.tables.tables import attempts, executions, plans, schedulers
from cronhare.domain.schedules.planning import plan
from tests.faults.arena import Arena
from tests.faults.jobs import MARK
from tests.faults.judging import Figures, judge

pytestmark = pytest.mark.integration

RUNS = 4

#: Seconds of its minute that a test is to have: in the next one all schedules are due, unclaimed.
SPARE = 5.0


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
    arena.engine.dispose()


def verdict(arena: Arena, *, later: timedelta = timedelta(seconds=1)) -> Figures:
    settled_at = arena.claims.now() + later
    return judge(arena, cycles=1, recoveries=[2.0, 1.0, 9.0], settled_at=settled_at)


def test_promises_that_were_kept_are_not_called_broken(arena: Arena) -> None:
    figures = verdict(arena)

    assert figures.broken == 0
    assert (figures.executions, figures.attempts, figures.retried) == (RUNS, 2 * RUNS, RUNS)
    assert figures.recovery == 2.0


def test_what_was_claimed_after_all_had_ended_is_not_judged(arena: Arena) -> None:
    settled_at = arena.claims.now()
    [late, *_] = arena.ask_for_runs()
    arena.effects.write_text(arena.effects.read_text() + f"{late} 1\n" * 2)

    figures = judge(arena, cycles=1, recoveries=[], settled_at=settled_at)

    assert (figures.executions, figures.doubled, figures.stuck) == (RUNS, 0, 0)


def test_what_fell_due_after_all_had_ended_is_not_owed(arena: Arena) -> None:
    [schedule] = arena.schedules.schedules(["s1"])
    assert schedule.next_due_at is not None
    move(arena, schedule.id, schedule.next_due_at + timedelta(minutes=1))

    assert verdict(arena).lost == 0


def a_row_vanishes(arena: Arena) -> None:
    with arena.engine.begin() as connection:
        connection.execute(delete(executions).where(executions.c.id == arena.executions()[0].id))


def a_due_instant_is_in_no_row(arena: Arena) -> None:
    arena.owed.add(("s1", datetime.now().astimezone()))


def minutes_are_passed_over(arena: Arena) -> None:
    long_ago = arena.claims.now() - timedelta(minutes=3)
    with arena.engine.begin() as connection:
        one = schedulers.c.name == "s1"
        connection.execute(update(schedulers).where(one).values(created_at=long_ago))


def a_success_did_nothing(arena: Arena) -> None:
    lines = arena.effects.read_text().splitlines(keepends=True)
    arena.effects.write_text("".join(lines[:-1]))


def an_attempt_begins_twice(arena: Arena) -> None:
    first = arena.effects.read_text().splitlines()[0]
    with arena.effects.open("a") as record:
        record.write(f"{first}\n")


def an_attempt_begins_unknown_to_the_ledger(arena: Arena) -> None:
    with arena.effects.open("a") as record:
        record.write("987654 1\n")


def a_run_succeeds_twice(arena: Arena) -> None:
    with arena.engine.begin() as connection:
        one = attempts.c.execution_id == arena.executions()[0].id
        connection.execute(update(attempts).where(one).values(ending="succeeded"))


def a_row_does_not_end(arena: Arena) -> None:
    with arena.engine.begin() as connection:
        one = executions.c.id == arena.executions()[0].id
        connection.execute(update(executions).where(one).values(state="retrying"))


def a_cursor_stands_still(arena: Arena) -> None:
    [schedule] = arena.schedules.schedules(["s1"])
    move(arena, schedule.id, schedule.created_at)


def a_process_tells_of_its_own_fault(arena: Arena) -> None:
    (arena.logs / "a.log").write_text('{"action": "loop.fault"}\n')


def a_process_ends_with_a_traceback(arena: Arena) -> None:
    (arena.logs / "a.log").write_text("KeyError: 'due'\n")


def move(arena: Arena, schedule_id: int, cursor: datetime) -> None:
    with arena.engine.begin() as connection:
        one = plans.c.scheduler_id == schedule_id
        connection.execute(update(plans).where(one).values(next_due_at=cursor))


@pytest.mark.parametrize(
    ("break_it", "name"),
    [
        (a_row_vanishes, "lost"),
        (a_due_instant_is_in_no_row, "lost"),
        (minutes_are_passed_over, "lost"),
        (a_success_did_nothing, "lost"),
        (an_attempt_begins_twice, "doubled"),
        (an_attempt_begins_unknown_to_the_ledger, "doubled"),
        (a_run_succeeds_twice, "doubled"),
        (a_row_does_not_end, "stuck"),
        (a_cursor_stands_still, "stuck"),
        (a_process_tells_of_its_own_fault, "bugs"),
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


def test_a_run_by_hand_is_not_sent_again_when_it_is_sent_first(arena: Arena) -> None:
    lines = [
        f'{{"action": "reconcile", "message": "Sending {many} overdue executions again"}}\n'
        for many in (RUNS, 3)
    ]
    (arena.logs / "a.log").write_text("".join(lines) + '{"action": "attempt.fenced"}\n')

    figures = verdict(arena)

    assert (figures.republished, figures.fenced, figures.bugs) == (3, 1, 0)

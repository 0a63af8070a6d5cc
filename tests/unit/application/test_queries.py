"""What people look at, and what they are told of names that nobody knows."""

from datetime import timedelta

import attrs
import pytest

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.reading.queries import Queries
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.application.administration.views.values import DEEPEST, json_value
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.conditions import Conditions
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.skips import Pause
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.records import ExecutionFilter
from tests.unit.application.deliveries import always, failure, run
from tests.unit.application.house import LEASE, NOON, REPORT, House
from tests.unit.executions import execution

MINUTE = timedelta(minutes=1)


def queries(house: House) -> Queries:
    found: Queries = house.container.queries()
    return found


@pytest.mark.parametrize(
    ("run", "waits_for"),
    [
        (execution(), f"a scheduler that hands it to the broker, for queue {MAIN_QUEUE}"),
        (
            execution(State.RETRYING, next_attempt_at=NOON + MINUTE),
            "its time, 2026-03-02 12:01:00Z",
        ),
        (
            execution(State.RUNNING, owner="ant", lease_until=NOON + LEASE),
            "its task to end, which runs at ant",
        ),
        (
            execution(State.RUNNING, owner="ant", lease_until=NOON),
            (
                "a scheduler that gives attempt 1 up for lost: ant, "
                "not renewed since 2026-03-02 12:00:00Z"
            ),
        ),
        (
            execution(State.PUBLISHED, cancel_requested=True),
            "a scheduler to cancel it, as its row asks for; no worker begins it",
        ),
        (
            execution(problem="state: 'garbage'"),
            "a scheduler that quarantines it, as its row is broken",
        ),
        (execution(State.SUCCEEDED), None),
    ],
)
def test_what_has_not_ended_says_what_it_waits_for(run: Execution, waits_for: str | None) -> None:
    assert ExecutionView.of(run, now=NOON).waits_for == waits_for


@pytest.mark.parametrize("text", ["{", "NaN", "1e999", "[" * (DEEPEST + 2) + "]" * (DEEPEST + 2)])
def test_what_cannot_be_shown_as_json_stays_text(text: str) -> None:
    assert json_value(text) == text


def test_of_what_is_due_next_that_is_marked_which_will_not_run() -> None:
    house = House()
    skip = Conditions(blackout=("13:00-14:00",), max_runs=2)
    house.add(schedule="0 * * * *", conditions=skip)  # it is 12:00
    house.add("held", schedule="0 * * * *")
    pause = Pause(since=house.now, until=NOON + timedelta(hours=2), reason="it moves")
    house.schedules.pause("held", pause, now=house.now)

    marked = [one.why_not for one in queries(house).upcoming("report", count=4)]
    held = [one.why_not for one in queries(house).upcoming("held", count=2)]

    assert marked == ["blackout: 13:00-14:00", None, None, "max_runs: it had its 2 runs"]
    assert held == [str(pause), None]


async def test_the_failures_of_a_renamed_schedule_are_listed_and_shown_as_its_own() -> None:
    house = House(script=always(failure()))
    await run(house, retry=RetryPolicy(attempts=1))
    house.sql("UPDATE FailedTask SET schedule_name = 'before'")

    [listed] = queries(house).failures(FailureFilter(), limit=9)
    shown = queries(house).failure(listed.id)

    assert shown.schedule is not None
    assert shown.schedule.name == "report"
    assert listed == shown.failure


# Names

BACKUP = TaskRef("worker", 7)


def house_with(*drafts: ScheduleDraft) -> House:
    house = House()
    house.schedules.save(drafts, source="shop", now=house.now)
    return house


def nightly(**changes: object) -> ScheduleDraft:
    fields = {"name": "nightly", "task": BACKUP, "task_name": "backup", "schedule": "@daily"}
    return ScheduleDraft(**fields | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("bakcup", "there is no task 'bakcup'; did you mean backup?"),
        ("daily-reprot", "there is no task 'daily-reprot'; did you mean daily-report?"),
        ("zzz", "there is no task 'zzz'; there is backup, daily-report"),
        ("worker 8", "there is no task 'worker 8'"),
    ],
)
def test_an_unknown_task_is_refused_with_those_that_come_close(asked: str, told: str) -> None:
    names = house_with(nightly()).names

    for which in (ExecutionFilter(task=asked), FailureFilter(task=asked)):
        with pytest.raises(NotFound) as refused:
            names.refuse_unknown(which)
        assert str(refused.value).startswith(told)


def test_a_schedule_that_has_a_number_alone_is_shown_with_the_name_of_its_task() -> None:
    house = House(tasks=[attrs.evolve(REPORT, source="books")])
    rows = [
        nightly(task=REPORT.ref, task_name=None),
        nightly(name="other", task=BACKUP, task_name=None),
        nightly(name="paid", task=ref_of_topic("paid"), topic="paid", task_name=None),
    ]
    house.schedules.save(rows, source=None, now=house.now)
    for source in ("shop", "books"):
        of_file = nightly(name=source, task=REPORT.ref, task_name=None)
        house.schedules.save([of_file], source=source, now=house.now)

    asked = queries(house)

    names = {
        row: asked.schedule(row).task_name for row in ("nightly", "other", "paid", "shop", "books")
    }
    assert [row for row, name in names.items() if name == REPORT.name] == ["nightly", "books"]
    assert {*names.values()} == {REPORT.name, None}

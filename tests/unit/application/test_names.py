from datetime import timedelta

import attrs
import pytest

from cronhare.adapters.sql.nodes import SqlNodeStore
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.reading.queries import Queries
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.nodes import NodeReport
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.records import ExecutionFilter
from tests.actors import ADA
from tests.unit.application.endings import always, failure
from tests.unit.application.house import REPORT, House

BACKUP = TaskRef("worker", 7)


def house_with(*drafts: ScheduleDraft) -> House:
    house = House()
    house.schedules.save(drafts, source="shop", now=house.now)
    return house


def nightly(**changes: object) -> ScheduleDraft:
    fields = {"name": "nightly", "task": BACKUP, "task_name": "backup", "schedule": "@daily"}
    return ScheduleDraft(**fields | changes)  # type: ignore[arg-type]


def serve(house: House, queue: str) -> None:
    worker = NodeReport(
        name="bee",
        role="worker",
        host="hive",
        version="1",
        started_at=house.now,
        seen_at=house.now,
        queues=(queue,),
    )
    SqlNodeStore(house.engine, house.clock).report(worker, kept_for=timedelta(hours=1))


def test_a_task_has_the_numbers_of_its_jobs_file_and_of_its_schedules() -> None:
    names = house_with(nightly(task_name=REPORT.name)).names

    found = names.resolved(ExecutionFilter(task=REPORT.name))

    assert {*found.numbers} == {REPORT.ref, BACKUP, ref_of_topic(REPORT.name)}
    of_failures = names.resolved(FailureFilter(task="backup"))
    assert of_failures.numbers == (ref_of_topic("backup"),)
    assert of_failures.conditions == {"task": "backup", "unresolved": True}


@pytest.mark.parametrize("asked", [REPORT.name, "report 25", "backup", "worker 7", "orders.paid"])
def test_a_task_that_is_known_is_not_refused(asked: str) -> None:
    topic = "orders.paid"
    paid = nightly(name="paid", task=ref_of_topic(topic), topic=topic, task_name=None)
    house = house_with(nightly(), paid)

    house.names.refuse_unknown(ExecutionFilter(task=asked))
    house.names.refuse_unknown(FailureFilter(task=asked))


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


def test_a_queue_is_known_by_schedules_and_by_the_workers_that_serve_it() -> None:
    house = house_with(nightly(queue="backups"))
    serve(house, "mails")

    for queue in ("backups", "mails", "cron_scheduler"):
        house.names.refuse_unknown(FailureFilter(queue=queue))
    with pytest.raises(NotFound, match="no queue 'mail'; did you mean mails"):
        house.names.refuse_unknown(FailureFilter(queue="mail"))


def test_schedules_and_files_that_nobody_knows_are_refused_but_for_the_systems_own() -> None:
    names = house_with(nightly()).names

    names.refuse_unknown(ExecutionFilter(schedule="cronhare-cleanup"))
    with pytest.raises(NotFound, match="no schedule 'nihgtly'; did you mean nightly"):
        names.refuse_unknown(ExecutionFilter(schedule="nihgtly"))
    with pytest.raises(NotFound, match="no jobs file 'shpo'; did you mean shop"):
        names.expect_source("shpo")


def queries_of(house: House) -> Queries:
    found: Queries = house.container.queries()
    return found


#: The failures of a task that is asked for by its name.
BY_NAME = FailureFilter(task=REPORT.name)


@pytest.fixture
async def numbered() -> House:
    """Give a ledger in which a failed row has the number of its task alone."""
    house = House(script=always(failure()), policy=RetryPolicy(attempts=1))
    house.add(schedule=None)
    house.administrator.run_now("report", params=None, actor=ADA)
    await house.open()
    await house.turn()
    house.sql("UPDATE FailedTask SET task_name = NULL")
    return house


def test_what_has_a_number_alone_is_shown_with_the_name_of_its_task(numbered: House) -> None:
    asked, [row] = queries_of(numbered), numbered.records.archive()
    [run] = asked.executions(ExecutionFilter())

    assert numbered.records.execution(run.id).task_name is None  # type: ignore[union-attr]
    assert (run.called, asked.execution(run.id).execution.task_name) == (REPORT.name, REPORT.name)
    [failed] = asked.failures(BY_NAME, limit=9)
    assert failed.called == failed.dead_letter.original_job_name == REPORT.name
    assert asked.failure(row.id).failure.task_name == REPORT.name


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

    asked = queries_of(house)

    names = {
        row: asked.schedule(row).task_name for row in ("nightly", "other", "paid", "shop", "books")
    }
    assert [row for row, name in names.items() if name == REPORT.name] == ["nightly", "books"]
    assert {*names.values()} == {REPORT.name, None}

"""Schedules that people create one by one, and reports that they ask for."""

from collections.abc import Sequence
from uuid import UUID

import attrs
import pytest

from cronhare.application.administration.audit_queries import AuditQueries
from cronhare.application.administration.commands import CannotRun
from cronhare.application.administration.lookup import NotFound
from cronhare.application.administration.repetition import RequestReused
from cronhare.application.administration.schedule_desk import (
    NameTaken,
    ReportDesk,
    ScheduleDesk,
)
from cronhare.domain.execution import State
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.params import LARGEST_PARAMS
from cronhare.domain.schedules.retention import ClassRetention, Keep
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.schedules.task_policy import TaskPolicy
from tests.actors import ADA
from tests.unit.application.house import NOON, REPORT, House

DRAFT = ScheduleDraft(name="nightly", task=REPORT.ref, schedule="0 8 * * *")
ONE, OTHER = UUID(int=1), UUID(int=2)


ASKED = "a1" * 32


def report_desk(house: House, tasks: Sequence[Task] = (REPORT,)) -> ReportDesk:
    return ReportDesk(
        schedules=house.schedules,
        administrator=house.administrator,
        catalog=Catalog(tasks),
    )


def test_a_repetition_is_the_schedule_that_was_made_whatever_its_policies_are_by_now() -> None:
    house = House()
    desk = ScheduleDesk(house.schedules, house.trail)
    id_ = desk.create(DRAFT, now=NOON, request=ASKED, actor=ADA)

    assert desk.create(DRAFT, now=NOON, request=ASKED, actor=ADA) == id_
    stricter = attrs.evolve(DRAFT, retry=RetryPolicy(attempts=1))
    assert desk.create(stricter, now=NOON, request=ASKED, actor=ADA) == id_


def test_what_is_not_said_to_be_a_repetition_is_refused() -> None:
    house = House()
    desk = ScheduleDesk(house.schedules, house.trail)
    desk.create(DRAFT, now=NOON, actor=ADA)

    with pytest.raises(NameTaken):
        desk.create(DRAFT, now=NOON, actor=ADA)


def test_a_repetition_that_says_something_else_or_meets_a_files_schedule_is_refused() -> None:
    house = House()
    desk = ScheduleDesk(house.schedules, house.trail)
    desk.create(DRAFT, now=NOON, request=ASKED, actor=ADA)

    with pytest.raises(NameTaken):
        desk.create(DRAFT, now=NOON, request="b2" * 32, actor=ADA)
    house.schedules.save([DRAFT], source="jobs.toml", now=NOON)
    with pytest.raises(NameTaken):
        desk.create(DRAFT, now=NOON, request=ASKED, actor=ADA)


def test_a_repetition_of_what_an_older_release_made_is_known_by_what_its_row_says() -> None:
    house = House()
    desk = ScheduleDesk(house.schedules, house.trail)
    id_ = house.schedules.create(DRAFT, now=NOON)  # and keeps no request
    stricter = attrs.evolve(DRAFT, retry=RetryPolicy(attempts=1))

    assert desk.create(DRAFT, now=NOON, request=ASKED, actor=ADA) == id_
    assert desk.create(stricter, now=NOON, request=ASKED, actor=ADA) == id_
    with pytest.raises(NameTaken):
        desk.create(attrs.evolve(DRAFT, params='{"a":1}'), now=NOON, request=ASKED, actor=ADA)
    house.schedules.save([DRAFT], source="jobs.toml", now=NOON)
    with pytest.raises(NameTaken):
        desk.create(DRAFT, now=NOON, request=ASKED, actor=ADA)


def test_a_repetition_is_the_schedule_that_was_made_whatever_became_of_it() -> None:
    house = House()
    desk = ScheduleDesk(house.schedules, house.trail)
    id_ = desk.create(DRAFT, now=NOON, request=ASKED, actor=ADA)
    house.schedules.save([attrs.evolve(DRAFT, params='{"a":1}')], source=None, now=NOON)

    def made_by(request: str) -> int | None:
        return desk.made_by(request, name=DRAFT.name, now=NOON, actor=ADA)

    assert (made_by(ASKED), made_by("b2" * 32)) == (id_, None)
    # It had looked before the first one was done.
    assert desk.create(DRAFT, now=NOON, request=ASKED, actor=ADA) == id_
    outcomes = [entry.outcome for entry in AuditQueries(house.audit).entries()]
    assert outcomes == ["unchanged", "unchanged", "done"]


async def test_a_report_that_is_asked_for_runs_with_the_params_of_the_request() -> None:
    house = House()
    await house.open()

    run = report_desk(house).generate(
        "DailyReport", params='{"controller":"DailyReport"}', now=NOON, request=None, actor=ADA
    )
    await house.turn()

    assert house.only.state is State.SUCCEEDED
    assert (run.task, run.params) == (REPORT.ref, '{"controller":"DailyReport"}')
    assert [stored.name for stored in house.schedules.schedules()] == ["reports/daily-report"]


def test_a_request_begins_one_run_and_another_one_another() -> None:
    desk = report_desk(House())

    first = desk.generate("daily-report", params='{"a":1,"b":2}', now=NOON, request=ONE, actor=ADA)

    again = desk.generate("daily-report", params='{"b":2,"a":1}', now=NOON, request=ONE, actor=ADA)
    assert again.id == first.id
    other = desk.generate("daily-report", params="{}", now=NOON, request=OTHER, actor=ADA)
    assert other.id != first.id
    with pytest.raises(RequestReused):
        desk.generate("daily-report", params='{"a":2}', now=NOON, request=ONE, actor=ADA)


def test_its_schedule_follows_the_file_and_keeps_what_people_wrote() -> None:
    house = House()
    report_desk(house).generate("daily-report", params="{}", now=NOON, request=None, actor=ADA)
    [stored] = house.schedules.schedules()
    assert stored.draft is not None
    by_hand = attrs.evolve(stored.draft, description="ours", queue="slow")
    house.schedules.save([by_hand], source=None, now=NOON)
    keep = Keep(done=1)
    policy = TaskPolicy(retry=RetryPolicy(attempts=9), keep=keep)
    changed = Task(
        name="daily-report",
        ref=TaskRef("report", 77),
        command=("true",),
        task_class="daily",
        policy=policy,
    )

    run = report_desk(house, [changed]).generate(
        "daily-report", params="{}", now=NOON, request=None, actor=ADA
    )

    [stored] = house.schedules.schedules()
    assert stored.draft == attrs.evolve(
        by_hand,
        task=changed.ref,
        retry=policy.retry,
        retention=ClassRetention(task_class="daily", keep=keep),
    )
    assert (run.task, run.queue) == (changed.ref, "slow")


def test_params_that_are_too_large_are_refused() -> None:
    params = f'"{"x" * LARGEST_PARAMS}"'

    with pytest.raises(CannotRun, match="bytes of JSON"):
        report_desk(House()).generate(
            "daily-report", params=params, now=NOON, request=None, actor=ADA
        )


def test_only_reports_are_found() -> None:
    worker = Task(name="clean", ref=TaskRef("worker", 1), command=("true",))

    with pytest.raises(NotFound, match="did you mean daily-report"):
        report_desk(House(), [REPORT, worker]).generate(
            "daily-reprot", params="{}", now=NOON, request=None, actor=ADA
        )
    with pytest.raises(NotFound, match="there is none"):
        report_desk(House(), [worker]).generate(
            "clean", params="{}", now=NOON, request=None, actor=ADA
        )

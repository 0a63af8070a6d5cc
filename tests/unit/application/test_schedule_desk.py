"""Schedules that people create one by one."""

import attrs
import pytest

from cronhare.application.administration.changing.schedules import NameTaken, ScheduleDesk
from cronhare.application.administration.reading.measures import AuditQueries
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft
from tests.actors import ADA
from tests.unit.application.house import NOON, REPORT, House

DRAFT = ScheduleDraft(name="nightly", task=REPORT.ref, schedule="0 8 * * *")


ASKED = "a1" * 32


def test_a_repetition_is_the_schedule_that_was_made_whatever_its_policies_are_by_now() -> None:
    house = House()
    desk = ScheduleDesk(house.schedules, house.trail)
    id_ = desk.create(DRAFT, request=ASKED, actor=ADA)

    assert desk.create(DRAFT, request=ASKED, actor=ADA) == id_
    stricter = attrs.evolve(DRAFT, retry=RetryPolicy(attempts=1))
    assert desk.create(stricter, request=ASKED, actor=ADA) == id_


def test_a_repetition_that_says_something_else_or_meets_a_files_schedule_is_refused() -> None:
    house = House()
    desk = ScheduleDesk(house.schedules, house.trail)
    desk.create(DRAFT, request=ASKED, actor=ADA)

    with pytest.raises(NameTaken):
        desk.create(DRAFT, request="b2" * 32, actor=ADA)
    house.schedules.save([DRAFT], source="jobs.toml", now=NOON)
    with pytest.raises(NameTaken):
        desk.create(DRAFT, request=ASKED, actor=ADA)


def test_a_repetition_is_the_schedule_that_was_made_whatever_became_of_it() -> None:
    house = House()
    desk = ScheduleDesk(house.schedules, house.trail)
    id_ = desk.create(DRAFT, request=ASKED, actor=ADA)
    house.schedules.save([attrs.evolve(DRAFT, params='{"a":1}')], source=None, now=NOON)

    def made_by(request: str) -> int | None:
        return desk.made_by(request, name=DRAFT.name, actor=ADA)

    assert (made_by(ASKED), made_by("b2" * 32)) == (id_, None)
    # It had looked before the first one was done.
    assert desk.create(DRAFT, request=ASKED, actor=ADA) == id_
    outcomes = [entry.outcome for entry in AuditQueries(house.audit).entries()]
    assert outcomes == ["unchanged", "unchanged", "done"]

import pytest

from cronhare.adapters.sql.schedule_lists import SqlScheduleLists
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.reading.schedules import ScheduleLists
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.ports.schedules import ScheduleFilter
from tests.unit.application.house import REPORT, House


def test_a_jobs_file_that_nobody_knows_is_refused() -> None:
    house = House()
    nightly = ScheduleDraft(name="nightly", task=REPORT.ref, schedule="@daily")
    house.schedules.save([nightly], source="shop", now=house.now)
    lists = ScheduleLists(
        lists=SqlScheduleLists(house.engine, house.clock),
        names=house.names,
        views=house.views,
        now=house.clock.now,
    )

    assert not lists.page(ScheduleFilter(source="shop", search="report"), limit=9).schedules
    with pytest.raises(NotFound, match="no jobs file 'shpo'; did you mean shop"):
        lists.page(ScheduleFilter(source="shpo"), limit=9)

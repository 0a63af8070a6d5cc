from collections.abc import Sequence
from datetime import datetime

import pytest

from cronhare.adapters.sql.schedules.lists import SqlScheduleLists
from cronhare.application.administration.lookup import NotFound
from cronhare.application.administration.schedule_lists import ScheduleLists
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.ports.schedules import ScheduleFilter, StoredSchedule
from tests.unit.application.house import REPORT, House


class Counting:
    """Lists, and how often all of them were counted."""

    def __init__(self, house: House) -> None:
        self._lists = SqlScheduleLists(house.engine, house.clock)
        self.counted = 0

    def page(
        self, which: ScheduleFilter, *, after: str | None = None, limit: int, now: datetime
    ) -> Sequence[StoredSchedule]:
        return self._lists.page(which, after=after, limit=limit, now=now)

    def count(self, which: ScheduleFilter, *, now: datetime) -> int:
        self.counted += 1
        return self._lists.count(which, now=now)


def lists_of(house: House, lists: Counting) -> ScheduleLists:
    return ScheduleLists(
        lists=lists,
        records=house.records,
        names=house.names,
        policy=RetryPolicy(),
        now=house.clock.now,
    )


def test_a_jobs_file_that_nobody_knows_is_refused() -> None:
    house = House()
    house.schedules.save(
        [ScheduleDraft(name="nightly", task=REPORT.ref, schedule="@daily")],
        source="shop",
        now=house.now,
    )
    lists = lists_of(house, Counting(house))

    assert not lists.page(ScheduleFilter(source="shop", search="report"), limit=9).schedules
    with pytest.raises(NotFound, match="no jobs file 'shpo'; did you mean shop"):
        lists.page(ScheduleFilter(source="shpo"), limit=9)


def test_what_one_page_has_is_not_counted_anew() -> None:
    house, which = House(), ScheduleFilter(search="report")
    for number in range(3):
        house.add(f"report-{number}")
    counting = Counting(house)
    lists = lists_of(house, counting)
    whole, part = (lists.page(which, limit=limit) for limit in (3, 2))

    assert (lists.count(which, first=whole), counting.counted) == (3, 0)
    assert (lists.count(which, first=part), counting.counted) == (3, 1)
    assert (lists.count(which), counting.counted) == (3, 2)

"""What every list of schedules promises."""

import pytest

from cronhare.domain.schedules.skips import Pause
from cronhare.ports import schedules
from cronhare.ports.schedules import ScheduleFilter
from tests.integration.ledgers import Ledger, draft

ALL = ScheduleFilter()


def names(ledger: Ledger, which: ScheduleFilter = ALL, *, after: str | None = None) -> list[str]:
    page = ledger.lists.page(which, after=after, limit=2, now=ledger.now)
    return [stored.name for stored in page]


def test_schedules_are_listed_by_name_a_page_at_a_time(ledger: Ledger) -> None:
    ledger.save(*map(draft, ["cleanup", "backup", "report", "archive", "Mail"]))

    assert names(ledger) == ["Mail", "archive"]
    assert names(ledger, after="archive") == ["backup", "cleanup"]
    assert names(ledger, after="by-now-deleted") == ["cleanup", "report"]
    assert names(ledger, after="report") == []


def test_a_listed_schedule_is_the_stored_one(ledger: Ledger) -> None:
    ledger.add("report")
    ledger.schedules.pause("report", Pause(since=ledger.now, by="ann"), now=ledger.now)

    assert [*ledger.lists.page(ALL, limit=9, now=ledger.now)] == [*ledger.schedules.schedules()]


def test_a_page_has_what_its_filter_takes(ledger: Ledger) -> None:
    ledger.save(draft("a"), draft("b", status=False), draft("c"), draft("d", description="Weekly"))
    ledger.schedules.pause("c", Pause(since=ledger.now), now=ledger.now)

    assert names(ledger, ScheduleFilter(enabled=False)) == ["b"]
    assert names(ledger, ScheduleFilter(paused=True)) == ["c"]
    assert names(ledger, ScheduleFilter(paused=False, enabled=True)) == ["a", "d"]
    assert names(ledger, ScheduleFilter(search="week")) == ["d"]


def test_a_search_is_for_letters_and_for_no_pattern(ledger: Ledger) -> None:
    ledger.save(draft("off_1"), draft("off-2", description="A 100% Ü"))
    ledger.schedules.save([draft("of-a-file")], source="jobs.toml", now=ledger.now)

    assert names(ledger, ScheduleFilter(search="OFF")) == ["off-2", "off_1"]
    assert names(ledger, ScheduleFilter(search="f_")) == ["off_1"]
    assert names(ledger, ScheduleFilter(search="100% Ü")) == ["off-2"]
    assert names(ledger, ScheduleFilter(search="100%%")) == []
    assert names(ledger, ScheduleFilter(source="jobs.toml")) == ["of-a-file"]
    assert names(ledger, ScheduleFilter(source="jobs.toml ")) == []


def test_many_schedules_are_counted_up_to_a_bound(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = type(ledger.lists).__module__
    monkeypatch.setattr(f"{module}.MOST_COUNTED", 2)
    assert schedules.MOST_COUNTED > 2
    ledger.save(draft("a"), draft("b", status=False))
    assert ledger.lists.count(ALL, now=ledger.now) == 2

    ledger.save(*(draft(name) for name in "cdef"))

    assert ledger.lists.count(ALL, now=ledger.now) == 3
    assert ledger.lists.count(ScheduleFilter(enabled=False), now=ledger.now) == 1

"""The runs to come, and what is noted of files, as far as clocks and intervals go."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from cronhare.application.administration.jobs_file.difference import Change, ScheduleChange
from cronhare.application.administration.jobs_file.notes import (
    notes_on,
    notes_on_clocks,
    notes_on_keys,
)
from cronhare.application.administration.reading.schedules import preview
from cronhare.domain.cron import CronExpression, Fold, Gap, clock_changes, find_zone
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import Concurrency, Recurring
from tests.unit.application.house import NOON, REPORT
from tests.unit.application.test_administer import File

BERLIN = find_zone("Europe/Berlin")
DRAFT = ScheduleDraft(name="nightly", task=REPORT.ref, schedule="30 2 * * *")
LOCAL = attrs.evolve(DRAFT, timezone="Europe/Berlin")


def shown(day: str, gap: Gap = Gap.AFTER, fold: Fold = Fold.FIRST) -> list[str]:
    timing = Recurring(CronExpression.parse("30 2 * * *"), BERLIN, clock_changes(gap, fold))
    after = datetime.fromisoformat(day).replace(tzinfo=UTC)
    return [
        " ".join(
            [f"{due.local:%d %H:%M%z}", *([] if due.runs else ["-"]), *(c.kind for c in due.clock)]
        )
        for due in preview(timing, BERLIN, after=after, count=2)
    ]


def test_a_preview_marks_what_is_moved_and_what_is_skipped() -> None:
    assert shown("2026-03-28T12:00") == ["29 03:00+0200 moved", "30 02:30+0200"]
    assert shown("2026-03-28T12:00", gap=Gap.SKIP) == [
        "29 03:00+0200 - skipped",
        "30 02:30+0200",
        "31 02:30+0200",
    ]


def test_a_preview_marks_each_pass_of_what_comes_twice() -> None:
    assert shown("2026-10-24T12:00", fold=Fold.BOTH) == [
        "25 02:30+0200 first-pass",
        "25 02:30+0100 second-pass",
    ]
    assert shown("2026-10-24T12:00", fold=Fold.SECOND)[0] == "25 02:30+0100 second-pass"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schedule": None, "every": timedelta(seconds=5), "jitter": timedelta(minutes=1)}, "jitt"),
        ({"schedule": "*/5 * * * *", "gap": Gap.SKIP}, "gap and fold say nothing"),
        ({"schedule": "5 * * * *", "fold": Fold.BOTH}, "gap and fold say nothing"),
    ],
)
def test_what_has_no_effect_or_an_odd_one_is_noted(changes: dict[str, Any], said: str) -> None:
    notes = map(str, notes_on(File([attrs.evolve(DRAFT, **changes)], [REPORT]), now=NOON))

    assert [said in note for note in notes] == [True]


def keyed(params: str, schedule: str | None = "@daily") -> ScheduleDraft:
    concurrency = Concurrency(key="c-{params.shop}", limit=5)
    return attrs.evolve(DRAFT, concurrency=concurrency, params=params, schedule=schedule)


@pytest.mark.parametrize("params", ["{}", '{"shop": true}', '{"shop": 1.5}', '{"shop": " "}'])
def test_a_concurrency_key_that_a_schedules_own_params_leave_empty_is_noted(params: str) -> None:
    [note] = notes_on(File([keyed(params)], [REPORT]), now=NOON)

    assert str(note) == (
        "schedules.nightly: concurrency.key: params.shop is no text or whole number in its params: "
        "each run has the key 'c-'"
    )


def test_of_a_key_that_is_filled_or_that_a_run_by_hand_may_fill_nothing_is_noted() -> None:
    by_hand = keyed("{}", schedule=None)

    assert list(notes_on(File([keyed('{"shop": 7}'), by_hand], [REPORT]), now=NOON)) == []
    assert len(list(notes_on_keys(File([by_hand], on_start=["nightly"])))) == 1


def changed(draft: ScheduleDraft, change: Change = Change.ADD) -> ScheduleChange:
    return ScheduleChange(name=draft.name, change=change, draft=draft)


def test_what_the_clock_does_next_is_noted_of_what_is_added() -> None:
    notes = notes_on_clocks([changed(LOCAL), changed(DRAFT)], now=NOON)

    assert [str(note) for note in notes] == [
        "schedules.nightly: 2026-03-29 02:30 does not exist that day: it runs after the gap",
        "schedules.nightly: 2026-10-25 02:30 comes twice that day: it runs the first time",
    ]

"""Writing a jobs file: what is read again is what was written."""

import string
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.jobs.reader import JobsFile, read_jobs_text
from cronhare.adapters.jobs.writer import WrittenJobs, write_jobs
from cronhare.adapters.toml_writing import Value, write_table
from cronhare.domain.cron import Fold, Gap
from cronhare.domain.retries.policy import Backoff, BackoffType, RetryPolicy
from cronhare.domain.schedules.conditions import CalendarDraft, Conditions
from cronhare.domain.schedules.draft import ScheduleDraft, faults_of
from cronhare.domain.schedules.schedule import Concurrency, Misfire, MisfirePolicy, OverlapPolicy
from cronhare.domain.schedules.task import ClassRetention, TaskRef, same_params

PATH = Path("/nowhere/jobs.toml")


def write(*written: ScheduleDraft, source: str | None = "shop") -> WrittenJobs:
    return write_jobs(written, source=source, path=PATH, policy=RetryPolicy())


def read(jobs: WrittenJobs) -> JobsFile:
    return read_jobs_text(jobs.text, PATH, policy=RetryPolicy())


PLAIN = ScheduleDraft(
    name="plain", task=TaskRef("report", 5), task_name="report-5", schedule="@daily"
)


FULL = attrs.evolve(
    PLAIN,
    name="full",
    task=TaskRef("event", 2**31 - 1),
    task_name="full",
    gap=Gap.SKIP,
    fold=Fold.BOTH,
    timezone="Australia/Lord_Howe",
    params='{"a": [true, -9223372036854775808, 0.1, "\\u00e9\\n\\"", {"": {}}]}',
    status=False,
    description=string.printable + '"""\\u0000\x7f\u2028\ud7ff🚀',
    retry=RetryPolicy(
        attempts=20,
        backoff=Backoff(type=BackoffType.SEQUENCE, delay=1_000, sequence=(1_000, 2_000)),
    ),
    retention=ClassRetention(class_="of-its-own", done=7, failed=0),
    misfire=Misfire(
        policy=MisfirePolicy.ALL, window=timedelta(milliseconds=90_061_001), cap=10_000
    ),
    overlap=OverlapPolicy.SKIP,
    concurrency=Concurrency(key='a "quoted" {params.a}', limit=1_000),
    timeout=timedelta(milliseconds=1),
    jitter=timedelta(seconds=90),
    starts_at=datetime(2026, 3, 2, 1, 2, 3, 4, tzinfo=UTC),
    ends_at=datetime(9000, 1, 1, tzinfo=UTC),
    queue="cron_scheduler.slow",
    conditions=Conditions(
        max_runs=10**9,
        pause_after=1_000,
        expires=timedelta(hours=1),
        skip_on=("holidays",),
        only_on=("holidays", "workdays"),
    ),
    user_id=0,
    group_id=2**31 - 1,
)


@pytest.mark.parametrize(
    "draft",
    [
        PLAIN,
        FULL,
        attrs.evolve(PLAIN, schedule=None, every=timedelta(days=366)),
        attrs.evolve(PLAIN, schedule=None, date_time=datetime(1970, 1, 5, tzinfo=UTC)),
        attrs.evolve(PLAIN, retry=RetryPolicy(attempts=1, backoff=Backoff(multiplier=1.5))),
    ],
    ids=["plain", "full", "interval", "moment", "policy"],
)
def test_what_is_read_again_is_what_was_written(draft: ScheduleDraft) -> None:
    assert faults_of(draft) == ()

    jobs = write(draft)

    assert jobs.left_out == {}
    file = read(jobs)
    [again] = file.drafts
    assert attrs.evolve(again, params="{}") == attrs.evolve(draft, params="{}")
    assert same_params(again.params, draft.params)
    assert file.source == "shop"


def test_a_plain_schedule_is_three_lines_and_its_task_fails_until_it_is_mended() -> None:
    text = write(PLAIN).text

    assert text.endswith('[schedules.plain]\ntask = "report-5"\nschedule = "@daily"\n')
    [task] = read(write(PLAIN)).tasks
    assert (task.command, task.ref) == (("false",), PLAIN.task)


def test_what_has_no_times_runs_by_hand() -> None:
    jobs = write(attrs.evolve(PLAIN, schedule=None))

    assert "manual = true" in jobs.text
    assert read(jobs).on_boot == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "Nightly Report"}, "'Nightly Report' is not allowed"),
        ({"name": 'x"]\ncommand = ["rm"]'}, "is not allowed"),
        ({"params": '{"a": [null]}'}, "TOML has no null"),
        ({"params": '{"a": 18446744073709551615}'}, "is no whole number of 64 bits"),
        ({"params": "[" * 400 + "]" * 400}, "lies in more than 64 tables and lists"),
        ({"schedule": "61 * * * *"}, "minute: 61 is outside 0-59"),
    ],
)
def test_what_a_file_cannot_have_is_left_out_and_told(changes: Any, reason: str) -> None:  # noqa: ANN401
    spoilt = attrs.evolve(PLAIN, **{"name": "spoilt", "task_name": "spoilt", **changes})

    jobs = write(PLAIN, spoilt)

    assert [draft.name for draft in read(jobs).drafts] == ["plain"]
    [(name, told)] = jobs.left_out.items()
    assert name == spoilt.name
    assert reason in told


def test_calendars_are_written_with_their_days_and_what_these_are_called() -> None:
    named = CalendarDraft(
        name="de-holidays", timezone="Europe/Berlin", windows=(("12-25", "Xmas"), ("01-01", None))
    )
    plain = CalendarDraft(
        name="closed", timezone="UTC", windows=(("2026-12-24", None), ("mon", None))
    )
    wrong = CalendarDraft(name="UPPER", timezone="UTC", windows=(("12-25", None),))

    written = write_jobs(
        [], source="shop", path=PATH, policy=RetryPolicy(), calendars=[named, plain, wrong]
    )

    assert read(written).calendars == (named, plain)
    assert 'days = { 12-25 = "Xmas", 01-01 = "" }' in written.text
    assert list(written.left_out) == ["calendars.UPPER"]


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
TOML_VALUE = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(TEXT).map(tuple),
    st.dictionaries(TEXT, TEXT),
)


@given(path=st.lists(TEXT, min_size=1, max_size=3), values=st.dictionaries(TEXT, TOML_VALUE))
def test_what_is_written_reads_back(path: list[str], values: dict[str, Value]) -> None:
    written = write_table(tuple(path), values)

    read = tomllib.loads(written)
    for part in path:
        read = read[part]
    assert read == {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }

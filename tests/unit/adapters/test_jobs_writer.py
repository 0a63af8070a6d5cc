"""Writing a jobs file: what is read again is what was written."""

import string
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhare.adapters.jobs.reader import JobsFile, read_jobs_text
from cronhare.adapters.jobs.writer import WrittenJobs, write_jobs
from cronhare.domain.cron import Fold, Gap
from cronhare.domain.retries.policy import RetryPolicy, read_policy
from cronhare.domain.schedules.conditions import CalendarDraft, Conditions
from cronhare.domain.schedules.draft import ScheduleDraft, faults_of
from cronhare.domain.schedules.schedule import Concurrency, Misfire, MisfirePolicy, OverlapPolicy
from cronhare.domain.schedules.task import (
    LARGEST_NUMBER,
    ClassRetention,
    TaskRef,
    same_params,
)

PATH = Path("/nowhere/jobs.toml")
MILLISECOND = timedelta(milliseconds=1)

names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,62}", fullmatch=True).filter(
    lambda name: not name.startswith("cronhare-")
)
moments = st.datetimes(datetime(1970, 1, 5), datetime(9000, 1, 1)).map(  # noqa: DTZ001
    lambda moment: moment.replace(tzinfo=UTC)
)
spans = st.integers(1, 10**9).map(lambda number: number * MILLISECOND)
numbers = st.none() | st.integers(0, LARGEST_NUMBER)
delays = st.integers(1_000, 3_600_000)
texts = st.text(st.characters(codec="utf-8"), max_size=30)
json_values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
policies = st.builds(
    lambda attempts, backoff: read_policy(
        {"attempts": attempts, "backoff": backoff}, default=RetryPolicy()
    ),
    st.integers(1, 20),
    st.one_of(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["exponential", "fixed", "linear"]), "delay": delays},
            optional={
                "multiplier": st.floats(1, 10),
                "max_delay": st.just(86_400_000),
                "jitter": st.sampled_from(["none", "plus", "both", "full"]),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("sequence"), "delay": st.lists(delays, min_size=1, max_size=3)}
        ),
    ),
)
conditions = st.fixed_dictionaries(
    {},
    optional={
        "max_runs": st.integers(1, 10**9),
        "pause_after": st.integers(1, 1_000),
        "expires": st.integers(1, 10**6).map(lambda seconds: timedelta(seconds=seconds)),
        "skip_on": st.just(("holidays",)),
        "only_on": st.just(("holidays", "workdays")),
    },
).map(lambda given: Conditions(**cast("Any", given)) if given else None)
whens = st.one_of(
    st.fixed_dictionaries(
        {
            "schedule": st.sampled_from(["30 2 * * *", "H H(1-5) * * MON-FRI", "@daily"]),
            "gap": st.sampled_from(Gap),
            "fold": st.sampled_from(Fold),
        }
    ),
    st.fixed_dictionaries({"date_time": moments}),
    st.fixed_dictionaries(
        {"every": st.integers(1, 366 * 86_400).map(lambda seconds: timedelta(seconds=seconds))}
    ),
    st.just(dict[str, Any]()),
)


@st.composite
def drafts(draw: st.DrawFn) -> ScheduleDraft:
    retention = draw(
        st.none()
        | st.builds(
            ClassRetention,
            class_=st.just("of-its-own"),
            done=st.integers(0, 100_000),
            failed=st.integers(0, 100_000),
        )
    )
    first = draw(st.none() | moments)
    return ScheduleDraft(
        name=draw(names),
        task=draw(
            st.builds(
                TaskRef,
                st.sampled_from(["report", "worker", "reminder", "event"]),
                st.integers(1, LARGEST_NUMBER),
            )
        ),
        task_name=draw(names),
        **draw(whens),
        timezone=draw(st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"])),
        params=msgspec.json.encode(draw(st.dictionaries(texts, json_values, max_size=3))).decode(),
        status=draw(st.booleans()),
        description=draw(st.none() | texts),
        retry=draw(st.none() | policies),
        retention=retention,
        misfire=draw(
            st.builds(
                Misfire,
                policy=st.sampled_from(MisfirePolicy),
                window=spans,
                cap=st.integers(1, 10_000),
            )
        ),
        overlap=draw(st.sampled_from(OverlapPolicy)),
        concurrency=draw(
            st.none()
            | st.builds(
                Concurrency,
                key=st.sampled_from(["one", "customer-{params.id}", 'a "quoted" one']),
                limit=st.integers(1, 1_000),
            )
        ),
        timeout=draw(st.none() | spans),
        jitter=draw(st.just(timedelta(0)) | spans),
        starts_at=first,
        ends_at=draw(st.none() | (moments if first is None else st.just(first))),
        queue=draw(st.sampled_from(["cron_scheduler", "cron_scheduler.slow"])),
        conditions=draw(conditions),
        user_id=draw(numbers),
        group_id=draw(numbers),
        language_id=draw(numbers),
    )


def write(*written: ScheduleDraft, source: str | None = "shop") -> WrittenJobs:
    return write_jobs(written, source=source, path=PATH, policy=RetryPolicy())


def read(jobs: WrittenJobs) -> JobsFile:
    return read_jobs_text(jobs.text, PATH, policy=RetryPolicy())


@settings(max_examples=60, deadline=None)
@given(drafts())
def test_what_is_read_again_is_what_was_written(draft: ScheduleDraft) -> None:
    assert faults_of(draft) == ()

    jobs = write(draft)

    assert jobs.left_out == {}
    file = read(jobs)
    [again] = file.drafts
    assert attrs.evolve(again, params="{}") == attrs.evolve(draft, params="{}")
    assert same_params(again.params, draft.params)
    assert file.source == "shop"


PLAIN = ScheduleDraft(
    name="plain", task=TaskRef("report", 5), task_name="report-5", schedule="@daily"
)


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
        ({"name": "#16"}, "'#16' is not allowed"),
        ({"name": 'x"]\ncommand = ["rm"]'}, "is not allowed"),
        ({"task": TaskRef("report", 0)}, "0 is not a whole number"),
        ({"params": '{"a": [null]}'}, "TOML has no null"),
        ({"params": '{"a": 18446744073709551615}'}, "is no whole number of 64 bits"),
        ({"params": "[" * 400 + "]" * 400}, "lies in more than 64 tables and lists"),
        ({"queue": "Reports"}, '"Reports" is not a queue\'s name'),
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


def test_texts_of_any_kind_stay_texts() -> None:
    nasty = string.printable + '"""\\u0000\x7f\u2028\ud7ff🚀'

    [again] = read(write(attrs.evolve(PLAIN, description=nasty))).drafts

    assert again.description == nasty


def test_calendars_are_written_with_their_days_and_what_these_are_called() -> None:
    named = CalendarDraft(
        name="de-holidays", timezone="Europe/Berlin", windows=(("12-25", "Xmas"), ("01-01", None))
    )
    plain = CalendarDraft(
        name="closed", timezone="UTC", windows=(("2026-12-24", None), ("mon", None))
    )
    wrong = CalendarDraft(name="UPPER", timezone="UTC", windows=(("12-25", None),))

    written = write_jobs(
        [],
        source="shop",
        path=PATH,
        policy=RetryPolicy(),
        calendars=[named, plain, wrong],
    )

    assert read(written).calendars == (named, plain)
    assert 'days = { 12-25 = "Xmas", 01-01 = "" }' in written.text
    assert list(written.left_out) == ["calendars.UPPER"]

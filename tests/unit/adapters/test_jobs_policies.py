"""What a jobs file says of how its tasks are run: the nearest wins."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs
from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.retries.policy import POLICIES, Backoff, BackoffType, RetryPolicy, Strategy
from cronhare.domain.schedules.task import ClassRetention, Task

ENVIRONMENT = RetryPolicy(attempts=4, backoff=Backoff(delay=7_000))
MINUTE = timedelta(minutes=1)

Read = Callable[[str], JobsFile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(content: str) -> JobsFile:
        path = tmp_path / "jobs.toml"
        path.write_text(content)
        return read_jobs(path, policy=ENVIRONMENT)

    return read


def task(read: Read, fields: str, before: str = "") -> Task:
    [found] = read(f'{before}\n[tasks.t]\nid = 1\ncommand = ["true"]\n{fields}\n').tasks
    return found


def row_policy(read: Read, fields: str, *, task: str = "", before: str = "") -> RetryPolicy | None:
    text = f'{before}\n[tasks.t]\nid = 1\ncommand = ["true"]\n{task}\n[schedules.s]\ntask = "t"\n'
    [draft] = read(f'{text}schedule = "@daily"\n{fields}\n').drafts
    return draft.retry


DEFAULTS = '[defaults]\nretry = { attempts = 9 }\ntimeout = "9m"\n'
CLASS = '[classes.slow]\nretry = { attempts = 8 }\ntimeout = "8m"\n'


@pytest.mark.parametrize(
    ("before", "of_task", "fields", "expected"),
    [
        (DEFAULTS, "", "", (9, 9)),
        (DEFAULTS + CLASS, 'class = "slow"', "", (8, 8)),
        (DEFAULTS + CLASS, 'class = "slow"\nretry = { attempts = 7 }\ntimeout = "7m"', "", (7, 7)),
        (DEFAULTS + CLASS, 'class = "slow"', "retry = { attempts = 6 }", (6, 8)),
        (DEFAULTS, 'class = "emails"', "", (4, 9)),
        (DEFAULTS, "", 'retry = "webhooks"', (6, 9)),
    ],
)
def test_the_nearest_wins(
    read: Read, before: str, of_task: str, fields: str, expected: tuple[int, int]
) -> None:
    policy = row_policy(read, fields, task=of_task, before=before)

    assert policy is not None
    assert (policy.attempts, task(read, of_task, before).timeout / MINUTE) == expected


def test_each_layer_completes_the_nearer_ones(read: Read) -> None:
    before = (
        '[defaults]\nretry = { backoff = { type = "linear", delay = 2000 } }\n'
        "[classes.slow]\nretry = { attempts = 8 }\n"
    )

    policy = row_policy(
        read, "retry = { backoff = { delay = 3000 } }", task='class = "slow"', before=before
    )

    linear = Backoff(type=BackoffType.LINEAR, delay=3_000)
    assert policy == RetryPolicy(attempts=8, backoff=linear)


def test_a_file_changes_of_a_built_in_class_what_it_names(read: Read) -> None:
    before = '[classes.emails]\nretry = { attempts = 9 }\ntimeout = "2m"\n'

    found = task(read, 'class = "emails"', before)

    assert found.policy.retry == RetryPolicy(attempts=9, backoff=POLICIES["emails"].backoff)
    assert found.timeout == 2 * MINUTE
    assert row_policy(read, 'retry = "emails"', before=before) == found.policy.retry


def test_what_is_kept_of_a_class_stands_in_the_rows_of_its_schedules(read: Read) -> None:
    text = (
        '[classes.emails]\nkeep = { done = 7 }\n[tasks.t]\ncommand = ["true"]\nclass = "emails"\n'
        '[tasks.u]\ncommand = ["true"]\nclass = "lease-style"\n'
    )

    drafts = read(
        f'{text}[schedules.s]\ntask = "t"\nschedule = "@daily"\n'
        '[schedules.r]\ntask = "u"\nschedule = "@daily"\n'
    ).drafts

    emails = ClassRetention(class_="emails", done=7, failed=500)
    assert [draft.retention for draft in drafts] == [emails, None]


def test_errors_of_all_layers_count_and_the_nearest_class_of_one(read: Read) -> None:
    before = (
        '[defaults]\nerrors = { transient = ["exit:75", "KeyError"] }\n'
        '[classes.slow]\nerrors = { permanent = ["KeyError", "EBAD"] }\n'
    )

    found = task(read, 'class = "slow"\nerrors = { rate-limited = ["EBAD"] }', before)

    assert found.policy.errors == {
        "exit:75": ErrorClass.TRANSIENT,
        "KeyError": ErrorClass.PERMANENT,
        "EBAD": ErrorClass.RATE_LIMITED,
    }


def test_a_strategy_is_found_beside_the_file(read: Read, tmp_path: Path) -> None:
    found = task(read, 'cwd = "/var"', '[defaults]\nstrategy = "shop.waits:polite"\n')

    assert found.policy.strategy == Strategy("shop.waits", "polite", tmp_path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('[classes."SLOW"]', "classes.SLOW: name: 'SLOW' is not allowed; allowed are a-z"),
        ("[classes.slow]\ncolour = 3", "classes.slow: colour: is not known here; there are"),
        (
            "[classes.slow]\nretry = { attempts = 0 }",
            "classes.slow: retry: SCHEDULE_RETRY_POLICY_INVALID: attempts: 0 is not",
        ),
        ('[defaults]\nretry = "slow"', "no preset is called 'slow'; there are emails"),
        ("[defaults]\nerrors = { fatal = [] }", "defaults: errors: 'fatal' is no class of errors"),
        ('[defaults]\nstrategy = "shop"', "strategy: 'shop' is no function; write \"module:func"),
        ('[tasks.t]\ncommand = ["x"]\nclass = "emial"', "there is no class 'emial'; did you mean"),
    ],
)
def test_what_cannot_be_says_what_is_wrong_and_where(read: Read, content: str, fault: str) -> None:
    with pytest.raises(JobsFileInvalid) as refused:
        read(content)

    [only] = refused.value.faults
    assert fault in str(only)


def test_what_no_layer_says_comes_from_the_environment(read: Read) -> None:
    policy = row_policy(read, "", before="[defaults]\nretry = { attempts = 2 }\n")

    assert policy == RetryPolicy(attempts=2, backoff=ENVIRONMENT.backoff)


@pytest.mark.parametrize("name", POLICIES)
def test_the_original_classes_need_no_declaration(read: Read, name: str) -> None:
    assert task(read, f'class = "{name}"').policy.retry == POLICIES[name]
    assert row_policy(read, "", task=f'class = "{name}"') == POLICIES[name]


def test_the_lease_style_ends_a_silent_attempt_after_five_minutes(read: Read) -> None:
    found = task(read, 'class = "lease-style"')

    assert found.timeout == timedelta(milliseconds=300_000)
    assert found.policy.retry == RetryPolicy(
        attempts=4, backoff=Backoff(type=BackoffType.LINEAR, delay=600_000)
    )

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

import pytest

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.domain.addresses import WebAddress
from cronhare.domain.retries.policy import Backoff, RetryPolicy
from cronhare.domain.schedules.catalog import NoListener, ref_of_topic
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskPolicy, TaskRef, assigned_number
from cronhare.domain.schedules.work import HttpCall

EXAMPLE = """
[tasks.refresh-user-token]
type = "report"                      # report | worker | reminder | event, or a name of your own
id = 25
command = ["python", "-m", "reports.refresh_user_token"]
timeout = "5m"

[schedules.daily-token-refresh]
task = "refresh-user-token"
schedule = "0 8 * * *"               # or date_time = 2025-12-15T15:00:00Z
timezone = "Europe/Berlin"
params = { controller = "RefreshUserToken" }
retry = { attempts = 4, backoff = { type = "exponential", delay = 30000 } }
"""
TASK = '[tasks.t]\nid = 1\ncommand = ["true"]\n'

Read = Callable[[str | bytes], JobsFile]


def one(read: Read, fields: str) -> ScheduleDraft:
    [draft] = read(f'{TASK}[schedules.s]\ntask = "t"\n{fields}\n').drafts
    return draft


def test_the_readmes_example_is_read(read: Read, tmp_path: Path) -> None:
    jobs = read(EXAMPLE)

    [task], [draft] = jobs.tasks, jobs.drafts
    assert task == Task(
        name="refresh-user-token",
        source="jobs.toml",
        ref=TaskRef("report", 25),
        command=("python", "-m", "reports.refresh_user_token"),
        timeout=timedelta(minutes=5),
        cwd=tmp_path,
        policy=TaskPolicy(timeout=timedelta(minutes=5)),
    )
    assert draft == ScheduleDraft(
        name="daily-token-refresh",
        task=TaskRef("report", 25),
        task_name="refresh-user-token",
        schedule="0 8 * * *",
        timezone="Europe/Berlin",
        params='{"controller":"RefreshUserToken"}',
        retry=RetryPolicy(attempts=4, backoff=Backoff(delay=30_000)),
    )
    assert (jobs.source, jobs.on_start) == ("jobs.toml", ())


def test_commands_run_where_and_with_what_the_defaults_say_unless_they_say_otherwise(
    read: Read, tmp_path: Path
) -> None:
    usual, own = read(
        '[defaults]\ncwd = "app"\nenv = { TZ = "UTC", LANG = "C", TOKEN = "none" }\n'
        'pass_env = ["DATABASE_URL"]\n'
        '[tasks.usual]\ncommand = ["true"]\n'
        '[tasks.own]\ncommand = ["true"]\ncwd = "/srv"\nenv = { LANG = "de" }\n'
        'pass_env = ["TOKEN"]\n'
    ).tasks

    assert (usual.cwd, usual.pass_env) == (tmp_path / "app", ("DATABASE_URL",))
    assert usual.env == {"TZ": "UTC", "LANG": "C", "TOKEN": "none"}
    assert (own.cwd, own.env) == (PurePath("/srv"), {"TZ": "UTC", "LANG": "de"})
    assert own.pass_env == ("TOKEN",)


@pytest.mark.parametrize(
    ("fields", "hour"),
    [
        ("date_time = 2025-12-15T15:00:00Z", 15),
        ('date_time = "2025-12-15T15:00:00Z"', 15),
        ("date_time = 2025-12-15T15:00:00", 15),
        ('date_time = 2025-12-15T15:00:00\ntimezone = "Europe/Berlin"', 14),
        ('date_time = 2025-12-15T15:00:00Z\ntimezone = "Europe/Berlin"', 15),
    ],
)
def test_a_moment_is_an_instant_or_a_wall_time_in_the_zone(
    read: Read, fields: str, hour: int
) -> None:
    moment = one(read, fields).date_time

    assert moment == datetime(2025, 12, 15, hour, 0, tzinfo=UTC)
    assert moment.tzinfo is UTC


@pytest.mark.parametrize(
    ("fold", "hour"),
    [("", 0), ("fold = 0", 0), ("fold = 1", 1), ('fold = "first"', 0), ('fold = "second"', 1)],
)
def test_a_wall_time_that_comes_twice_means_the_first_unless_told(
    read: Read, fold: str, hour: int
) -> None:
    draft = one(read, f'date_time = 2026-10-25T02:30:00\ntimezone = "Europe/Berlin"\n{fold}')

    assert draft.date_time == datetime(2026, 10, 25, hour, 30, tzinfo=UTC)


@pytest.mark.parametrize("content", ["", "# nothing\n", "[tasks]\n[schedules]\n", TASK])
def test_a_file_without_schedules_is_a_file(read: Read, content: str) -> None:
    assert read(content).drafts == ()


def test_a_byte_order_mark_and_windows_lines_are_no_faults(read: Read) -> None:
    content = b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode()

    assert len(read(content).drafts) == 1


def test_a_task_without_an_id_has_one_that_is_its_sources_and_names(read: Read) -> None:
    first = read('[tasks.t]\ncommand = ["true"]\n')
    again = read('[tasks.a]\ncommand = ["a"]\n[tasks.t]\ncommand = ["false"]\n')
    elsewhere = read('source = "shop"\n[tasks.t]\ncommand = ["true"]\n')

    [number], [_, same] = [task.ref for task in first.tasks], [task.ref for task in again.tasks]
    assert number == same == TaskRef("worker", assigned_number("jobs.toml", "t"))
    assert elsewhere.tasks[0].ref == TaskRef("worker", assigned_number("shop", "t"))


SCHEDULED = f'{TASK}[schedules.s]\ntask = "t"\nschedule = "@daily"\n'
ALERTED = '[notify.ops]\nevents = ["alert"]\ncommand = ["tell"]\n'


@pytest.mark.parametrize(
    ("line", "instead", "differs"),
    [
        ('on_failure = ["old"]', 'on_failure = ["new"]', True),
        ('ping = "https://a.example/"', 'ping = "https://b.example/"', True),
        ('not_started_by = "06:00"', 'not_started_by = "07:00"', True),
        ('notify = ["ops"]', "notify = []", True),
        ("status = true", "status = false", False),
    ],
)
def test_a_version_differs_by_whom_and_of_what_a_schedule_tells(
    read: Read, line: str, instead: str, differs: bool
) -> None:
    old, new = (read(f"{SCHEDULED}{each}\n{ALERTED}").version for each in (line, instead))

    assert (old != new) == differs


def test_a_schedule_names_a_topic_with_a_payload_and_a_task_listens(read: Read) -> None:
    file = read(
        """
        [tasks.charge]
        command = ["./charge"]
        topics = ["orders.due", "orders.overdue", "orders.due"]

        [schedules.due]
        topic = "orders.due"
        payload = { order = 7 }
        no_listener = "fail"
        date_time = 2026-05-01T08:00:00
        timezone = "Europe/Berlin"
        """
    )

    [task], [draft] = file.tasks, file.drafts
    assert task.topics == ("orders.due", "orders.overdue")
    assert (draft.topic, draft.params) == ("orders.due", '{"order":7}')
    assert (draft.no_listener, draft.task_name) == (NoListener.FAIL, None)
    assert draft.task == ref_of_topic("orders.due")


def test_a_task_may_be_a_request(read: Read) -> None:
    [task] = read(
        """
[tasks.t]
url = "https://shop.example/hook?key=SECRET"
method = "PUT"
headers = { Accept = "text/plain" }
headers_env = { Authorization = "SHOP_TOKEN" }
success = ["2xx", 304]
timeout = "20s"
"""
    ).tasks

    assert task.command == ()
    assert task.http == HttpCall(
        address=WebAddress.parse("https://shop.example/hook?key=SECRET"),
        method="PUT",
        headers={"Accept": "text/plain"},
        headers_env={"Authorization": "SHOP_TOKEN"},
        success=frozenset({*range(200, 300), 304}),
    )

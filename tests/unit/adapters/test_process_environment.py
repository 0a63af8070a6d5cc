import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

from cronhare.adapters.process.environment import environment, passed_environment
from cronhare.domain.schedules.schedule import ScheduleOwner
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.ports.runner import Invocation

PYTHON = str(Path(sys.executable).parent)
TASK = Task(name="report", ref=TaskRef("report", 25), command=("make-report",))
INVOCATION = Invocation(
    execution_id=7,
    execution_key="cron-2025-12-12-8-0",
    scheduler_id=16,
    schedule_name="nightly",
    attempt=1,
    deaths=0,
    due_at=datetime(2025, 12, 12, 8, tzinfo=UTC),
    fence=7_000_001,
    task=TASK,
    params={},
)


def given_to(task: Task, ours: dict[str, str]) -> dict[str, str]:
    return environment(
        attrs.evolve(INVOCATION, task=task),
        passed=passed_environment(ours),
        ours=ours,
        params_file="/tmp/params.json",
    )


@pytest.mark.parametrize("deaths", [0, 1, 3])
def test_a_task_finds_how_often_it_was_retried_and_0_at_first(deaths: int) -> None:
    env = environment(
        attrs.evolve(INVOCATION, attempt=deaths + 1, deaths=deaths),
        passed={},
        ours={},
        params_file="/tmp/params.json",
    )

    assert (env["RETRY_COUNT"], env["CRON_ATTEMPT"]) == (str(deaths), str(deaths + 1))


def test_only_what_is_listed_is_passed() -> None:
    ours = {"HOME": "/home/me", "LC_TIME": "de_DE", "TZ": "UTC", "AWS_SECRET": "x", "CRON_X": "x"}
    ours |= {"SHELL": "/usr/bin/zsh"}

    passed = passed_environment(ours)

    assert passed == {
        "HOME": "/home/me",
        "LC_TIME": "de_DE",
        "TZ": "UTC",
        "PATH": f"{PYTHON}:{os.defpath}",
        "PYTHONUNBUFFERED": "1",
        "SHELL": "/bin/sh",
    }


def test_the_folder_of_our_python_comes_first_and_once() -> None:
    assert passed_environment({"PATH": f"/bin:{PYTHON}"})["PATH"] == f"{PYTHON}:/bin"


def test_a_task_may_ask_for_more_by_name_but_never_for_our_settings() -> None:
    ours = {"TOKEN": "t", "CRON_DATABASE_URL": "secret", "CRON_BROKER_URL": "secret"}
    task = attrs.evolve(TASK, pass_env=tuple(ours))

    env = given_to(task, ours)

    assert env["TOKEN"] == "t"
    assert "secret" not in env.values()


def test_a_tasks_own_values_outweigh_what_is_passed_but_not_what_it_is_told() -> None:
    task = attrs.evolve(TASK, env={"TZ": "UTC", "PATH": "/opt", "CRON_ATTEMPT": "99"})

    env = given_to(task, {"TZ": "Europe/Berlin"})

    assert (env["TZ"], env["PATH"], env["CRON_ATTEMPT"]) == ("UTC", "/opt", "1")


def test_asking_for_path_keeps_our_python_first() -> None:
    task = attrs.evolve(TASK, pass_env=("PATH",))

    assert given_to(task, {"PATH": "/bin"})["PATH"] == f"{PYTHON}:/bin"


def test_a_task_is_told_when_it_was_due_its_schedule_and_its_fencing_token() -> None:
    env = given_to(TASK, {})

    assert env["CRON_MISSED"] == "0"
    assert env["CRON_DUE_AT"] == "2025-12-12T08:00:00Z"
    assert env["CRON_SCHEDULE"] == "nightly"
    assert env["CRON_FENCE"] == "7000001"


def test_of_an_owner_a_task_is_told_what_the_row_has() -> None:
    owned = attrs.evolve(INVOCATION, owned_by=ScheduleOwner(user_id=7, language_id=0))

    env = environment(owned, passed={}, ours={}, params_file="")

    assert (env["CRON_USER_ID"], env["CRON_LANGUAGE_ID"]) == ("7", "0")
    assert "CRON_GROUP_ID" not in env


def test_a_name_of_control_characters_is_told_as_the_log_has_it() -> None:
    named = attrs.evolve(INVOCATION, schedule_name="a\0\x1b[2Jb")

    env = environment(named, passed={}, ours={}, params_file="")

    assert env["CRON_SCHEDULE"] == r"a\x00\x1b[2Jb"


def test_of_a_trace_a_task_is_told_where_there_is_one() -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    def told(invocation: Invocation) -> str | None:
        made = environment(invocation, passed={}, ours={}, params_file="/tmp/params.json")
        return made.get("TRACEPARENT")

    assert told(attrs.evolve(INVOCATION, trace=trace)) == trace
    assert told(INVOCATION) is None

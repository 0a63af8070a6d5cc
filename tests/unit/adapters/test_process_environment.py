import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import attrs

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


def test_a_tasks_own_values_outweigh_what_is_passed_but_not_what_it_is_told() -> None:
    task = attrs.evolve(TASK, env={"TZ": "UTC", "PATH": "/opt", "CRON_ATTEMPT": "99"})

    env = given_to(task, {"TZ": "Europe/Berlin"})

    assert (env["TZ"], env["PATH"], env["CRON_ATTEMPT"]) == ("UTC", "/opt", "1")


def test_asking_for_path_keeps_our_python_first() -> None:
    task = attrs.evolve(TASK, pass_env=("PATH",))

    assert given_to(task, {"PATH": "/bin"})["PATH"] == f"{PYTHON}:/bin"


def test_of_an_owner_and_a_trace_a_task_is_told_what_there_is() -> None:
    owner = ScheduleOwner(user_id=7, language_id=0)
    owned = attrs.evolve(INVOCATION, owned_by=owner, trace="00-4bf9-00f0-01")

    env = environment(owned, passed={}, ours={}, params_file="")

    assert (env["CRON_USER_ID"], env["CRON_LANGUAGE_ID"]) == ("7", "0")
    assert env["TRACEPARENT"] == "00-4bf9-00f0-01"
    assert "CRON_GROUP_ID" not in env


def test_a_name_of_control_characters_is_told_as_the_log_has_it() -> None:
    named = attrs.evolve(INVOCATION, schedule_name="a\0\x1b[2Jb")

    env = environment(named, passed={}, ours={}, params_file="")

    assert env["CRON_SCHEDULE"] == r"a\x00\x1b[2Jb"

"""What an attempt is given, what it reports on its pipe, and how its end is told."""

import errno
import json
import os
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from cronhare.adapters.process.attempt import not_started, of_exit
from cronhare.adapters.process.environment import environment, passed_environment
from cronhare.adapters.process.messages import BrokenMessage, Message, read_message
from cronhare.adapters.process.output import Line
from cronhare.domain.retries.outcome import (
    LONGEST_CODE,
    LONGEST_MESSAGE,
    LONGEST_STACK,
    Ending,
    ErrorClass,
    TaskError,
)
from cronhare.domain.schedules.schedule import ScheduleOwner
from cronhare.domain.schedules.task import Task, TaskRef
from tests.integration.invocations import invocation

PYTHON = str(Path(sys.executable).parent)
TASK = Task(name="report", ref=TaskRef("report", 25), command=("make-report",))
INVOCATION = attrs.evolve(invocation("-"), task=TASK)


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
    own = attrs.evolve(TASK, env={"TZ": "UTC", "PATH": "/opt", "CRON_ATTEMPT": "99"})
    asks = attrs.evolve(TASK, pass_env=("PATH",))

    env = given_to(own, {"TZ": "Europe/Berlin"})

    assert (env["TZ"], env["PATH"], env["CRON_ATTEMPT"]) == ("UTC", "/opt", "1")
    assert given_to(asks, {"PATH": "/bin"})["PATH"] == f"{PYTHON}:/bin"


def test_of_an_owner_a_trace_and_an_odd_name_a_task_is_told_what_there_is() -> None:
    told = attrs.evolve(
        INVOCATION,
        owned_by=ScheduleOwner(user_id=7, language_id=0),
        trace="00-4bf9-00f0-01",
        schedule_name="a\0\x1b[2Jb",
    )

    env = environment(told, passed={}, ours={}, params_file="")

    assert (env["CRON_USER_ID"], env["CRON_LANGUAGE_ID"]) == ("7", "0")
    assert env["TRACEPARENT"] == "00-4bf9-00f0-01"
    assert "CRON_GROUP_ID" not in env
    assert env["CRON_SCHEDULE"] == r"a\x00\x1b[2Jb"


def error(text: str) -> TaskError:
    failed = read_message(Line(b'{"failed": true, "error": ' + text.encode() + b"}")).failed
    assert failed is not None
    return failed


def reported(line: bytes) -> Mapping[str, object]:
    return read_message(Line(line)).report


def test_the_original_messages_are_understood() -> None:
    assert read_message(Line(b'{"finish": 12345}')) == Message(finished=True)
    assert error("null") == TaskError(message="failed without a message")
    assert reported(b'{"progress": 1}') == {"progress": 1.0, "progress_text": None}


@pytest.mark.parametrize("wait", ["-1", '"30s"', "null", "true", "1e300"])
def test_a_snooze_is_a_number_of_seconds(wait: str) -> None:
    with pytest.raises(BrokenMessage, match="a number of seconds"):
        read_message(Line(b'{"snooze": ' + wait.encode() + b"}"))


TWO_MINUTES = {"error_class": ErrorClass.RATE_LIMITED, "retry_after": timedelta(minutes=2)}
NO_WAIT = {"error_class": ErrorClass.UNKNOWN, "retry_after": None}
NONSENSE = ("-1", "1e300", '"5"', "1" + "0" * 400)


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ('{"stack": "at x"}', {"stack": "at x"}),
        ('{"code": "ECONNREFUSED"}', {"code": "ECONNREFUSED", "error_class": ErrorClass.TRANSIENT}),
        ('{"code": "AUTH_INVALID", "class": "bad"}', {"error_class": ErrorClass.PERMANENT}),
        ('{"retry_after_ms": 120000}', TWO_MINUTES),
        ('{"retry_after": "120"}', TWO_MINUTES),
        (
            '{"retry_after": "Fri, 12 Dec 2025 08:00:00 GMT"}',
            {"retry_at": datetime(2025, 12, 12, 8, tzinfo=UTC)},
        ),
        *((f'{{"retry_after_ms": {wait}}}', NO_WAIT) for wait in NONSENSE),
        ('{"type": "KeyError"}', {"types": ("KeyError",)}),
        (f'{{"type": {json.dumps(["E"] * 100)}}}', {"types": ("E",) * 8}),
    ],
)
def test_an_error_is_a_sentence_or_tells_its_class_code_stack_wait_and_type(
    said: str, fields: dict[str, object]
) -> None:
    told = error(said)

    assert {name: getattr(told, name) for name in fields} == fields


@pytest.mark.parametrize(
    "line",
    [
        Line(b'{"progress": 0.5}', cut=True),
        Line(b"nonsense"),
    ],
)
def test_what_is_no_message_or_too_long_is_broken(line: Line) -> None:
    with pytest.raises(BrokenMessage):
        read_message(line)


def test_what_a_failure_says_is_cut_to_what_can_be_kept() -> None:
    said = error('{"message": "m%s", "code": "c%s", "stack": "s%s!"}' % (("x" * 60_000,) * 3))

    assert len(said.message) <= LONGEST_MESSAGE + 50
    assert len(said.code or "") <= LONGEST_CODE + 50
    assert len(said.stack or "") <= LONGEST_STACK + 50
    assert (said.stack or "")[-1] == "!"


def test_a_result_is_kept_as_json_without_blanks() -> None:
    kept = reported(b'{"result": {"rows": 12, "of": [1.5, null]}}')

    assert kept == {"result": '{"rows":12,"of":[1.5,null]}', "result_problem": None}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (Line(b'{"result": NaN}'), "not JSON"),
        (Line(b'{"result": "' + b"x" * 65_536 + b'"}'), "65538 bytes of JSON, 65536 are allowed"),
        (Line(b'{"result": "xx', cut=True), "more than 65536 bytes"),
        (Line(b'{"result_problem": "no JSON"}'), "no JSON"),
    ],
)
def test_a_result_that_cannot_be_kept_says_why(line: Line, why: str) -> None:
    assert why in str(read_message(line).report["result_problem"])


def test_the_text_of_a_progress_is_escaped_and_cut() -> None:
    escapes = reported(rb'{"progress": 1, "text": "\u001b[2J\u0000\u202e"}')
    long = reported(b'{"progress": 1, "text": "%s"}' % (b"x" * 1_000))

    assert escapes["progress_text"] == r"\x1b[2J\x00\u202e"
    assert "800 characters left out" in str(long["progress_text"])


REFUSED = TaskError(message="refused")
EXIT_3 = 3 << 8  # as wait(2) tells an exit code


@pytest.mark.parametrize(
    ("status", "failed", "ending"),
    [
        (0, None, Ending.SNOOZED),
        (0, REFUSED, Ending.FAILED),
        (EXIT_3, None, Ending.FAILED),
        (signal.SIGSEGV, None, Ending.CRASHED),
    ],
)
def test_a_snooze_counts_if_the_task_then_ended_well(
    status: int, failed: TaskError | None, ending: Ending
) -> None:
    outcome = of_exit(status, Message(failed=failed, snooze=timedelta(seconds=30)))

    assert outcome.ending is ending


@pytest.mark.parametrize(
    ("step", "number", "error_class"),
    [
        ("exec", errno.ENOENT, ErrorClass.PERMANENT),
        ("exec", errno.ETXTBSY, ErrorClass.TRANSIENT),
        ("fork", errno.EAGAIN, ErrorClass.TRANSIENT),
    ],
)
def test_whether_a_start_may_be_tried_again_depends_on_what_was_wrong(
    step: str, number: int, error_class: ErrorClass
) -> None:
    outcome = not_started(TASK, step, number)

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert outcome.error.error_class is error_class
    assert outcome.error.code == errno.errorcode[number]

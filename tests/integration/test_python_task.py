"""`cronhare.task` inside a real task, and by hand."""

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from textwrap import dedent

import pytest

from cronhare.adapters.process.runner import ProcessRunner
from cronhare.domain.retries.outcome import Ending, ErrorClass, TaskError, snoozed
from cronhare.ports.runner import AttemptResult
from tests.integration.invocations import invocation

pytestmark = pytest.mark.integration


def script(body: str) -> str:
    return "from cronhare import task\n" + dedent(body)


def error_of(ran: AttemptResult) -> TaskError:
    assert ran.outcome.ending is Ending.FAILED
    assert ran.outcome.exit_code == 1
    assert ran.outcome.error is not None
    return ran.outcome.error


def by_hand(body: str, *, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", script(body)],
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={k: v for k, v in os.environ.items() if not k.startswith("CRON_")},
    )


async def test_a_task_is_told_all_about_its_attempt(runner: ProcessRunner) -> None:
    told = invocation(
        "python",
        "-c",
        script("""
            import json
            facts = [task.execution_id(), task.execution_key(), task.attempt(), task.retry_count()]
            facts += [task.due_at().isoformat(), task.schedule(), task.fence(), task.user_id()]
            facts += [task.missed()]
            task.run(lambda params: print(json.dumps([params, *facts])))
        """),
        params={"controller": "RefreshUserToken"},
        attempt=3,
        deaths=2,
        missed=4,
    )

    ran = await runner.run(told)

    assert ran.outcome.ending is Ending.SUCCEEDED
    assert json.loads(ran.stdout.head) == [
        {"controller": "RefreshUserToken"},
        told.execution_id,
        "cron-2025-12-12-8-0",
        3,
        2,
        "2025-12-12T08:00:00+00:00",
        "nightly",
        told.fence,
        None,
        4,
    ]


@pytest.mark.parametrize(
    ("raised", "message", "error_class", "code"),
    [
        ("task.PermanentError('no', code='E42')", "no", ErrorClass.PERMANENT, "E42"),
        (
            "ConnectionRefusedError(111, 'no')",
            "ConnectionRefusedError: [Errno 111] no",
            ErrorClass.TRANSIENT,
            "ECONNREFUSED",
        ),
        ("TimeoutError('no')", "TimeoutError: no", ErrorClass.TRANSIENT, "ETIMEDOUT"),
        (
            "__import__('socket').gaierror(-2, 'no')",
            "gaierror: [Errno -2] no",
            ErrorClass.TRANSIENT,
            "ENOTFOUND",
        ),
        ("ValueError", "ValueError", ErrorClass.UNKNOWN, None),
    ],
)
async def test_an_exception_is_reported_with_its_class_and_its_code(
    runner: ProcessRunner, raised: str, message: str, error_class: ErrorClass, code: str | None
) -> None:
    body = f"def main(params):\n    raise {raised}\n\ntask.run(main)"

    error = error_of(await runner.run(invocation("python", "-c", script(body))))

    assert (error.message, error.error_class, error.code) == (message, error_class, code)
    assert (error.stack is None) == raised.startswith("task.")
    assert error.stack is None or "in main" in error.stack


@pytest.mark.parametrize("wait", ["30", "__import__('datetime').timedelta(seconds=30)"])
async def test_a_task_that_is_not_ready_yet_snoozes(runner: ProcessRunner, wait: str) -> None:
    body = f"async def main(params):\n    task.snooze({wait})\n\ntask.run(main)"

    ran = await runner.run(invocation("python", "-c", script(body)))

    assert ran.outcome == snoozed(timedelta(seconds=30))


@pytest.mark.parametrize(
    ("raised", "fields"),
    [
        (
            "task.RateLimited(retry_after=1.5)",
            {
                "error_class": ErrorClass.RATE_LIMITED,
                "retry_after": timedelta(seconds=1.5),
                "types": ("RateLimited",),
            },
        ),
        (
            "type('Busy', (ConnectionError,), {'retry_after': 'Fri, 12 Dec 2025 08:00:00 GMT'})",
            {
                "retry_at": datetime(2025, 12, 12, 8, tzinfo=UTC),
                "types": ("Busy", "ConnectionError", "OSError"),
            },
        ),
    ],
)
async def test_an_exception_may_carry_its_wait(
    runner: ProcessRunner, raised: str, fields: dict[str, object]
) -> None:
    body = f"def main(params):\n    raise {raised}\n\ntask.run(main)"

    error = error_of(await runner.run(invocation("python", "-c", script(body))))

    assert {name: getattr(error, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("arguments", "error_class"),
    [
        ("permanent=True", ErrorClass.PERMANENT),
        ("code='ETIMEDOUT'", ErrorClass.TRANSIENT),
        ("retry_after=2", ErrorClass.RATE_LIMITED),
    ],
)
async def test_fail_ends_the_task_with_a_class(
    runner: ProcessRunner, arguments: str, error_class: ErrorClass
) -> None:
    body = f"task.fail('enough', {arguments})\nprint('not reached')"

    ran = await runner.run(invocation("python", "-c", script(body)))

    assert error_of(ran).message == "enough"
    assert error_of(ran).error_class is error_class
    assert ran.stdout.head == ""


async def test_a_simulated_failure_is_one(runner: ProcessRunner) -> None:
    simulated = invocation(
        "python",
        "-c",
        script("task.run(lambda params: print('called'))"),
        env={"SIMULATE_FAILURE": "true"},
    )

    ran = await runner.run(simulated)

    assert error_of(ran).message == "Simulated failure for testing"
    assert ran.stdout.head == ""


def test_by_hand_the_parameters_come_from_stdin() -> None:
    ran = by_hand("task.run(lambda params: print(params, task.params()))", stdin='{"a": 1}')

    assert ran.stdout == "{'a': 1} {'a': 1}\n"
    assert ran.returncode == 0


def test_by_hand_nothing_is_needed_and_only_a_failure_is_told() -> None:
    body = """
        task.progress(0.4)
        task.finish()
        print(task.params(), task.execution_id(), task.execution_key())
        print(task.attempt(), task.retry_count())
        task.fail("enough")
    """

    ran = by_hand(body)

    assert (ran.stdout, ran.stderr, ran.returncode) == ("{} None None\n1 0\n", "enough\n", 1)


def test_the_module_costs_a_task_next_to_nothing() -> None:
    costly = "{'json', 'traceback', 'asyncio', 'attrs', 'msgspec'}"

    ran = by_hand(f"import sys\nprint({costly} & set(sys.modules))")

    assert ran.stdout == "set()\n"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("def main(params):\n    yield 1", "generator"),
        ("class main:\n    def __init__(self, params): ...\n    def __await__(self): ...", "main"),
        ("async def work(): ...\nasync def main(params):\n    return work()", "coroutine"),
    ],
)
async def test_what_nothing_would_run_fails_for_good(
    runner: ProcessRunner, body: str, kind: str
) -> None:
    ran = await runner.run(invocation("python", "-c", script(f"{body}\ntask.run(main)")))

    error = error_of(ran)
    assert (error.error_class, error.code) == (ErrorClass.PERMANENT, "NOT_RUNNABLE")
    assert error.message.startswith(f"the task returned a {kind}, which nothing runs")


async def test_what_a_coroutine_returns_is_its_result(runner: ProcessRunner) -> None:
    body = """
        import asyncio
        from dataclasses import dataclass
        from datetime import datetime, UTC

        @dataclass
        class Refreshed:
            region: str
            at: datetime

        async def main(params):
            await asyncio.sleep(0)
            task.progress(0.5, "half")
            return Refreshed(params["region"], datetime(2026, 1, 1, tzinfo=UTC))

        task.run(main)
    """

    ran = await runner.run(invocation("python", "-c", script(body), params={"region": "eu"}))

    assert ran.outcome.ending is Ending.SUCCEEDED
    assert json.loads(ran.report.result or "") == {"region": "eu", "at": "2026-01-01T00:00:00Z"}
    assert (ran.report.progress, ran.report.progress_text) == (0.5, "half")


@pytest.mark.parametrize("returned", ["float('nan')", "object()", "'x' * 65_535"])
async def test_what_cannot_be_kept_of_a_return_value_fails_nothing(
    runner: ProcessRunner, returned: str
) -> None:
    body = f"task.run(lambda params: {returned})"

    ran = await runner.run(invocation("python", "-c", script(body)))

    assert ran.outcome.ending is Ending.SUCCEEDED
    assert ran.report.result is None
    assert "what it returned is not kept" in (ran.report.result_problem or "")
    assert "what it returned is not kept" in ran.stderr.head


_TYPED = """
    from dataclasses import dataclass

    @dataclass
    class Params:
        users: list[int]
        dry: bool = False

    def main(params: Params):
        return [sum(params.users), params.dry]

    task.run(main)
"""


async def test_params_are_converted_to_the_class_that_a_task_asks_for(
    runner: ProcessRunner,
) -> None:
    asked = ({"users": [1, 2]}, {"users": ["root"]}, {"users": [], "dryy": True})
    typed = [invocation("python", "-c", script(_TYPED), params=params) for params in asked]

    ran, *refused = await asyncio.gather(*map(runner.run, typed))

    assert ran.report.result == "[3,false]"
    unfit, slip = map(error_of, refused)
    for error in (unfit, slip):
        assert (error.error_class, error.code) == (ErrorClass.PERMANENT, "PARAMS_INVALID")
    assert "`$.users[0]`" in unfit.message
    assert slip.message == "params: 'dryy' is not known; did you mean dry? Params has users, dry"


async def test_other_names_are_for_events_reports_and_a_class_that_is_open_to_them(
    runner: ProcessRunner,
) -> None:
    opened = """
        from typing import TypedDict

        class Params(TypedDict):
            users: list[int]

        def main(params: Params):
            return params["users"]

        task.run(main)
    """
    params = {"users": [1], "dryy": True}
    of_a_report = {"users": [1], "controller": "Users", "options_interface": {}}

    typed = ("python", "-c", script(_TYPED))

    taken, report, event = await asyncio.gather(
        runner.run(invocation("python", "-c", script(opened), params=params)),
        runner.run(invocation(*typed, params=of_a_report)),
        runner.run(invocation(*typed, params=params, env={"CRON_TOPIC": "users.added"})),
    )

    assert taken.report.result == "[1]"
    assert (report.report.result, event.report.result) == ("[1,false]",) * 2
    assert (report.stderr.head, event.stderr.head) == ("", "")

"""Which retry policy counts, the presets, and a strategy of one's own."""

from datetime import timedelta
from pathlib import Path, PurePath

import attrs
import pytest

from cronhare.adapters.jobs.reader import read_jobs
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.domain.execution import State
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.retries.policy import POLICIES, RetryPolicy, Strategy
from cronhare.domain.schedules.task import TaskPolicy
from cronhare.ports.runner import AttemptResult, Captured, Invocation
from cronhare.strategy import wait_in_ms
from tests.actors import ADA
from tests.scripted_runner import Script
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import MINUTE, SUCCESS, always, failure, run
from tests.unit.application.house import REPORT, House


def house_of(outcome: Outcome, policy: TaskPolicy) -> House:
    return House(script=always(outcome), tasks=[attrs.evolve(REPORT, policy=policy)])


@pytest.mark.parametrize(
    ("own", "told"), [(None, "1/2 in 60000ms"), (POLICIES["emails"], "1/3 in 2000ms")]
)
async def test_a_schedules_own_policy_goes_before_that_of_its_tasks_class(
    own: RetryPolicy | None, told: str, lines: Lines
) -> None:
    house = house_of(failure(), TaskPolicy(retry=POLICIES["payments"]))

    await run(house, retry=own)

    assert any(f"Scheduling retry {told}" in line for line in lines())


def key_error() -> Outcome:
    error = TaskError(message="KeyError: 'x'", types=("KeyError", "LookupError"))
    return Outcome(ending=Ending.FAILED, exit_code=1, error=error)


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (key_error(), "KeyError"),
        (failure(code="EBAD"), "EBAD"),
        (attrs.evolve(failure(), exit_code=78), "exit:78"),
    ],
)
async def test_an_error_that_the_file_calls_permanent_is_not_retried(
    outcome: Outcome, name: str
) -> None:
    house = house_of(outcome, TaskPolicy(errors={name: ErrorClass.PERMANENT}))

    await run(house)

    assert (house.only.state, house.only.attempt) == (State.FAILED, 1)
    [attempt] = house.records.attempts(house.only.id)
    assert '"error_class":"permanent"' in str(attempt.error)


# S4.1 and S4.2 in docs/compatibility.md, with a class and nothing else set

LEASE_STYLE = """
[tasks.job]
id = 1
command = ["true"]
class = "lease-style"

[schedules.job]
task = "job"
schedule = "* * * * *"
"""


def seen(house: House) -> ExecutionView:
    return ExecutionView.of(house.only, now=house.now)


def milliseconds_left(view: ExecutionView, house: House) -> float | None:
    if view.next_attempt_at is None:
        return None
    return (view.next_attempt_at - house.now) / timedelta(milliseconds=1)


async def test_a_job_that_fails_each_time_goes_the_original_way(tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(LEASE_STYLE)
    file = read_jobs(path, policy=RetryPolicy())
    house = House(script=always(failure()), tasks=file.tasks)
    house.applier.apply(file, actor=ADA)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)

    steps = [(seen(house).status, seen(house).deaths, milliseconds_left(seen(house), house))]
    house.schedules.save([], source=None, now=house.now, disabled=["job"])
    await house.open()
    for _ in range(4):
        await house.work()
        view = seen(house)
        left = milliseconds_left(view, house)
        steps.append((view.status, view.deaths, left))
        house.clock.advance(timedelta(milliseconds=left or 0))

    assert file.tasks[0].timeout == timedelta(milliseconds=300_000)
    assert steps == [
        ("waiting", 0, 0.0),
        ("failed", 1, 600_000),
        ("failed", 2, 1_200_000),
        ("failed", 3, 1_800_000),
        ("terminated", 3, None),
    ]
    assert (house.only.state, seen(house).completed_at) == (State.FAILED, None)


# A strategy of one's own: whatever it does, the retry comes

POLITE = Strategy("shop.waits", "polite", PurePath("/srv"))
SECOND = timedelta(seconds=1)


def said(text: str) -> AttemptResult:
    return AttemptResult(outcome=SUCCESS, stdout=Captured(head=text, bytes=len(text)))


class Asked:
    """Fails every task as it is told, and answers its strategy; remembers the questions."""

    def __init__(self, failed: Outcome, answer: AttemptResult) -> None:
        self._failed, self._answer = failed, answer
        self.questions: list[Invocation] = []

    def __call__(self, invocation: Invocation) -> Outcome | AttemptResult:
        if "cronhare.strategy" not in invocation.task.command:
            return self._failed
        self.questions.append(invocation)
        return self._answer


async def house_after(script: Script, *, params: str = "{}") -> House:
    task = attrs.evolve(REPORT, policy=TaskPolicy(strategy=POLITE), user="shop", env={"A": "1"})
    house = House(script=script, tasks=[task])
    await run(house, params=params)
    return house


def wait_of(house: House) -> timedelta:
    assert house.only.next_attempt_at is not None
    return house.only.next_attempt_at - house.now


async def test_it_is_given_the_attempts_the_error_and_the_job() -> None:
    error = TaskError(
        message="429", code="E429", types=("TooMany", "HTTPError"), retry_after=90 * SECOND
    )
    script = Asked(Outcome(ending=Ending.FAILED, exit_code=1, error=error), said("wait 1 ms"))

    house = await house_after(script, params='{"user":7}')

    [question] = script.questions
    assert question.params == {
        "attempts_made": 1,
        "error_type": "TooMany",
        "error": {
            "message": "429",
            "code": "E429",
            "types": ("TooMany", "HTTPError"),
            "error_class": "unknown",
            "ending": "failed",
            "exit_code": 1,
            "signal": None,
            "retry_after_ms": 90_000,
        },
        "job": {
            "name": "daily-report",
            "type": "report",
            "id": 25,
            "schedule": "report",
            "scheduler_id": house.only.scheduler_id,
            "execution_id": house.only.id,
            "key": house.only.key,
            "attempt": 1,
            "params": {"user": 7},
            "policy_wait_ms": 90_000,
        },
    }
    assert wait_of(house) == 90 * SECOND  # never earlier than the server asked


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (said("soon"), "'soon' is no answer"),
        (said("wait 604800001 ms"), "604800001 ms are longer than 604,800,000 ms"),
        (AttemptResult(outcome=failure("exited with code 1: KeyError: 'x'")), "KeyError: 'x'"),
    ],
)
async def test_without_a_usable_answer_the_policys_wait_counts_and_the_log_says_why(
    answer: AttemptResult, problem: str, lines: Lines
) -> None:
    house = await house_after(Asked(failure(), answer))

    assert wait_of(house) == 30 * SECOND
    [told] = [line for line in lines() if "gave no wait" in line]
    assert "Strategy shop.waits:polite gave no wait" in told
    assert problem in told
    assert "the wait of the retry policy counts, 30 s" in told


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(1_500, 1_500), (0.5, 1), (0, 0), (timedelta(seconds=2), 2_000), (None, None)],
)
def test_a_function_answers_milliseconds_or_a_timedelta(
    answer: object, expected: int | None
) -> None:
    assert wait_in_ms(answer) == expected


@pytest.mark.parametrize(
    "answer",
    ["5", True, -1, float("nan"), float("inf"), 10**400, [1], timedelta(seconds=-1), object()],
)
def test_any_other_answer_is_refused(answer: object) -> None:
    with pytest.raises(ValueError, match="is no wait: give milliseconds, a timedelta or None"):
        wait_in_ms(answer)

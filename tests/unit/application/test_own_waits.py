"""A task's own strategy chooses the wait before a retry; whatever it does, the retry comes."""

from datetime import timedelta
from pathlib import PurePath

import attrs
import pytest

from cronhare.domain.execution import State
from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.domain.retries.policy import Strategy
from cronhare.domain.schedules.task import TaskPolicy
from cronhare.ports.runner import AttemptResult, Captured, Invocation
from cronhare.strategy import wait_in_ms
from tests.scripted_runner import Script
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import MINUTE
from tests.unit.application.endings import SUCCESS, failure
from tests.unit.application.house import REPORT, House

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
    house.add(params=params)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)
    await house.open()
    await house.work()
    return house


def wait_of(house: House) -> timedelta:
    assert house.only.next_attempt_at is not None
    return house.only.next_attempt_at - house.now


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("wait 1500 ms\n", 1.5), ("wait 1 ms", 0.001), ("no wait of its own\n", 30)],
)
async def test_its_answer_takes_the_place_of_the_policys_wait(answer: str, expected: float) -> None:
    house = await house_after(Asked(failure(), said(answer)))

    assert wait_of(house) == expected * SECOND
    assert (house.only.state, house.only.deaths) == (State.RETRYING, 1)


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


async def test_it_runs_as_its_task_does_in_the_folder_of_its_file() -> None:
    script = Asked(failure(), said("wait 1 ms"))

    await house_after(script)

    [task] = [question.task for question in script.questions]
    assert task.command[1:] == ("-m", "cronhare.strategy", "shop.waits:polite")
    assert (task.cwd, task.user, task.env) == (PurePath("/srv"), "shop", {"A": "1"})
    assert task.label == "Strategy:DailyReport"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (said("soon"), "'soon' is no answer"),
        (said(""), "'' is no answer"),
        (said("wait -5 ms"), "'wait -5 ms' is no answer"),
        (said("wait 604800001 ms"), "604800001 ms are longer than 604,800,000 ms"),
        (AttemptResult(outcome=failure("exited with code 1: KeyError: 'x'")), "KeyError: 'x'"),
        (
            AttemptResult(
                outcome=Outcome(
                    ending=Ending.TIMED_OUT, error=TaskError(message="timed out after 10 s")
                )
            ),
            "timed out after 10 s",
        ),
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

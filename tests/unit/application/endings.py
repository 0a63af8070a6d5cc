"""Scripts: how attempts end."""

from collections.abc import Iterable
from datetime import timedelta

from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.ports.runner import AttemptResult, Invocation
from tests.scripted_runner import Script, succeed

SUCCESS = Outcome(ending=Ending.SUCCEEDED, exit_code=0)
CRASH = Outcome(ending=Ending.CRASHED, signal=11, error=TaskError(message="killed by SIGSEGV"))


def failure(
    message: str = "Connection timeout",
    *,
    code: str | None = None,
    error_class: ErrorClass = ErrorClass.UNKNOWN,
    retry_after: timedelta | None = None,
    stack: str | None = None,
) -> Outcome:
    """End badly, as a task says."""
    error = TaskError(
        message=message, code=code, error_class=error_class, retry_after=retry_after, stack=stack
    )
    return Outcome(ending=Ending.FAILED, exit_code=1, error=error)


def always(outcome: Outcome) -> Script:
    """End every attempt alike."""
    return lambda _: outcome


def one_by_one(outcomes: Iterable[Outcome]) -> Script:
    """End the attempts one after the other, then well."""
    left = iter(outcomes)
    return lambda _: next(left, SUCCESS)


class Seen:
    """Remembers each invocation, and ends it as a script says: well, unless there is another."""

    def __init__(self, script: Script = succeed) -> None:
        self.invocations: list[Invocation] = []
        self._script = script

    def __call__(self, invocation: Invocation) -> Outcome | AttemptResult:
        self.invocations.append(invocation)
        return self._script(invocation)

    @property
    def attempts(self) -> list[tuple[int, int]]:
        """The executions and attempts that were run, in order."""
        return [(each.execution_id, each.attempt) for each in self.invocations]

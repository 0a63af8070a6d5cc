"""What goes wrong with tasks: failures that await a person, open breakers, and spent budgets."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from shlex import quote
from typing import Final

from cronhare.domain.retries.limits import Breaker, BreakerState, Budget
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.words import counted, plural
from cronhare.ports.inspection import Severity

from .finding import Finding, named

#: What becomes of a failure while a breaker is not closed.
_CONSEQUENCES: Final = {
    BreakerState.OPEN: "what fails is not tried again",
    BreakerState.HALF_OPEN: (
        "one retry is let through as a probe, what fails beside it is not tried again"
    ),
}
_SAID: Final = {BreakerState.OPEN: "open", BreakerState.HALF_OPEN: "half open"}


def judge_failures(unresolved: int) -> Iterator[Finding]:
    """Tell of failures in the archive that nobody has resolved."""
    if unresolved:
        verb = "is" if unresolved == 1 else "are"
        yield Finding(
            Severity.WARNING,
            "runs",
            f"{counted(unresolved, 'run')} failed for good and {verb} unresolved",
            "`cronhare failed list` has the reasons; then `cronhare failed replay ID` runs one "
            "again, `cronhare failed discard ID` lets it be",
        )


def judge_breakers(breakers: Sequence[Breaker], *, now: datetime) -> Iterator[Finding]:
    """Tell of tasks whose failures get no retry, or but one as a probe: most of them fail."""
    for state, consequence in _CONSEQUENCES.items():
        names = [each.said for each in breakers if each.state(now) is state]
        if names:
            verb = "is" if len(names) == 1 else "are"
            task = quote(names[0]) if len(names) == 1 else "TASK"
            yield Finding(
                Severity.WARNING,
                "tasks",
                f"The circuit {plural(len(names), 'breaker')} of {named(names)} {verb} "
                f"{_SAID[state]}: {consequence}",
                f"`cronhare failed list --all --task {task}` has the errors; once its cause is "
                "gone a probe that succeeds closes it, and `cronhare breakers reset "
                f"{task}` does so at once",
            )


def judge_budgets(budgets: Sequence[Budget], *, now: datetime) -> Iterator[Finding]:
    """Tell of queues whose retries wait for more than their delay."""
    spent = [each for each in (budget.as_of(now) for budget in budgets) if not each.remaining(now)]
    if spent:
        until = say_moment(max(each.free_at(now) for each in spent))
        yield Finding(
            Severity.WARNING,
            "queues",
            f"The retry budget of {named([each.queue for each in spent])} is spent until {until}",
            "mend what makes so many attempts fail; `cronhare budgets list` has what is left, and "
            "CRON_RETRY_BUDGET how much there is",
        )

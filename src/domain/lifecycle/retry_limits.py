"""Holding retries against the limits of their queue: one rule for every store."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import attrs

from ..execution import Execution
from ..retries.budget import Budget, BudgetFree, BudgetPolicy, BudgetSpent, ask_budget
from ..retries.limits import RetryLimits
from ..retries.retry import RetryAfter, Verdict
from .transitions import overruled

#: What changed of a limit, to be told once.
LimitChange = BudgetSpent | BudgetFree


@attrs.frozen(kw_only=True)
class AttemptEnd:
    """An *execution* as it stands, the *verdict* on its attempt, and the *limits* of its retry."""

    execution: Execution
    verdict: Verdict
    limits: RetryLimits

    @property
    def retry(self) -> RetryAfter | None:
        """The retry that is asked for; None for no retry, or none that a limit holds for."""
        verdict = overruled(self.execution, self.verdict)
        return verdict if isinstance(verdict, RetryAfter) else None

    @property
    def budget(self) -> BudgetPolicy | None:
        """The budget that the retry takes from."""
        return None if self.retry is None else self.limits.budget


@attrs.frozen(kw_only=True)
class Ruled:
    """The *verdict* that the limits leave, and what *changes* of them are to be told."""

    verdict: Verdict
    changes: tuple[LimitChange, ...] = ()

    def leaves(self, asked: Verdict) -> bool:
        """Whether all is as it was *asked*, and nothing is to be told."""
        return self.verdict is asked and not self.changes


def queues_asked(ends: Iterable[AttemptEnd]) -> list[str]:
    """Give the queues whose budgets are asked, in the order in which every store locks them."""
    return sorted({end.execution.queue for end in ends if end.budget is not None})


class RetryJudge:
    """Rules on the ends of one batch, one after the other.

    *budgets* are those of `queues_asked` that the ledger has. Afterwards they are as it is to keep
    them.
    """

    def __init__(self, budgets: Iterable[Budget] = ()) -> None:
        self._budgets = {budget.queue: budget for budget in budgets}

    @property
    def budgets(self) -> Sequence[Budget]:
        """The budgets, in the order of their queues."""
        return [self._budgets[queue] for queue in sorted(self._budgets)]

    def rule(self, end: AttemptEnd, *, now: datetime) -> Ruled:
        """Rule on one end: only a retry can be held back."""
        retry, policy = end.retry, end.budget
        if retry is None or policy is None:
            return Ruled(verdict=end.verdict)
        queue = end.execution.queue
        budget = self._budgets.get(queue) or Budget(
            queue=queue, most=policy.most, window=policy.window
        )
        answer = ask_budget(budget, policy, retry, now=now)
        self._budgets[queue] = answer.budget
        return Ruled(verdict=answer.verdict, changes=(answer.change,) if answer.change else ())

"""What is done with many executions at once: the one of which it is refused is set apart."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

from cronhare.domain.execution import Execution, State
from cronhare.ports.ledger import LedgerRefused

from ..transactions.database import Database
from ..transactions.lock_waits import LockWaitBudget
from .bisection import (
    BatchResult,
    OnLocked,
)
from .quarantine import quarantine_and_log
from .refusals import bisect_and_judge
from .suspects import Kind, Suspects

T = TypeVar("T")


def write_isolated(
    database: Database,
    found: Sequence[Execution],
    do: Callable[[Sequence[Execution]], Collection[int]],
    *,
    now: datetime,
    suspects: Suspects,
    budget: LockWaitBudget,
    held: Callable[[Execution], None] | None = None,
) -> Collection[int]:
    """Do something with all of *found*, and set apart that of which it is refused.

    *do* gives the ids of those of which it has written something; whatever it writes depends
    on the state alone in which an execution was found. What others hold of it is told to *held*,
    or else passed over for a while. Answers the ids of those with which it is done.
    """
    done = set[int]()

    def ask(part: Sequence[Execution]) -> BatchResult[None]:
        written = do(part)
        done.update(written)
        return BatchResult((), written)

    def alone(execution: Execution, refusal: LedgerRefused) -> None:
        def still(seen: Execution) -> bool:
            return (seen.state, seen.attempt) == (execution.state, execution.attempt)

        if quarantine_and_log(database, execution.id, str(refusal), now, still=still):
            done.add(execution.id)

    def later(execution: Execution) -> None:
        database.passed_over.note(execution.id, now)

    if found:
        bisect_and_judge(
            found,
            ask,
            alone=alone,
            suspects=suspects,
            id_of=attrgetter("id"),
            kinds={one.id: one.state for one in found},
            unproven=later,
            on_locked=OnLocked(held or later, budget, finds_again=held is None),
        )
    return done


def take_isolated(
    database: Database,
    ids: Sequence[int],
    take: Callable[[Sequence[int]], BatchResult[T]],
    *,
    now: datetime,
    suspects: Suspects,
    budget: LockWaitBudget,
    states: Collection[State],
    kinds: Mapping[int, Kind],
) -> Sequence[T]:
    """Take what has these ids; set apart or pass over that of which it is refused."""

    def ask(part: Sequence[int]) -> BatchResult[Sequence[T]]:
        taken = take(part)
        return BatchResult([taken.answers], taken.written)

    def alone(id_: int, refusal: LedgerRefused) -> Sequence[T]:
        def still(seen: Execution) -> bool:
            return seen.state in states

        quarantine_and_log(database, id_, str(refusal), now, still=still)
        return ()

    def later(id_: int) -> Sequence[T]:
        database.passed_over.note(id_, now)
        return ()

    taken = bisect_and_judge(
        ids,
        ask,
        alone=alone,
        suspects=suspects,
        id_of=lambda id_: id_,
        kinds=kinds,
        unproven=later,
        on_locked=OnLocked(later, budget, finds_again=True),
    )
    return [one for each in taken for one in each]

"""Changing many executions at once: one that is refused is quarantined, the others go on."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

from cronhare.domain.execution import Execution, State
from cronhare.ports.ledger import LedgerRefused

from ..transactions.database import Database
from ..transactions.lock_waits import LockWaitBudget
from .bisection import BatchResult, OnLocked
from .quarantine import quarantine_and_log
from .refusals import bisect_and_judge
from .suspects import Kind, Suspects

T = TypeVar("T")


def write_isolated(
    database: Database,
    found: Sequence[Execution],
    write: Callable[[Sequence[Execution]], Collection[int]],
    *,
    now: datetime,
    suspects: Suspects,
    budget: LockWaitBudget,
    locked: Callable[[Execution], None] | None = None,
) -> Collection[int]:
    """Write something of all of *found*, and quarantine the one of which it is refused.

    *write* gives the ids of those of which it has written something; what it writes depends on the
    state alone in which an execution was found. *locked* is called for each that another
    transaction keeps locked; without it these are passed over for a while. Answers the ids of those
    that are written or quarantined.
    """
    done = set[int]()

    def ask(part: Sequence[Execution]) -> BatchResult[None]:
        written = write(part)
        done.update(written)
        return BatchResult((), written)

    def alone(execution: Execution, refusal: LedgerRefused) -> None:
        def still(seen: Execution) -> bool:
            return (seen.state, seen.attempt) == (execution.state, execution.attempt)

        if quarantine_and_log(database, execution.id, str(refusal), now, still=still):
            done.add(execution.id)

    def pass_over(execution: Execution) -> None:
        database.passed_over.note(execution.id, now)

    if found:
        bisect_and_judge(
            found,
            ask,
            alone=alone,
            suspects=suspects,
            id_of=attrgetter("id"),
            kinds={one.id: one.state for one in found},
            unproven=pass_over,
            on_locked=OnLocked(locked or pass_over, budget, finds_again=locked is None),
        )
    return done


def take_isolated(
    database: Database,
    ids: Sequence[int],
    take: Callable[[Sequence[int], dict[int, Kind]], BatchResult[T]],
    *,
    now: datetime,
    suspects: Suspects,
    budget: LockWaitBudget,
    states: Collection[State],
) -> Sequence[T]:
    """Take executions by id; quarantine, or pass over, the one of which that is refused.

    It is quarantined only if it is still in one of *states*. *take* notes by id which kind of
    change it is about to write.
    """
    kinds: dict[int, Kind] = {}

    def ask(part: Sequence[int]) -> BatchResult[Sequence[T]]:
        taken = take(part, kinds)
        return BatchResult([taken.answers], taken.written)

    def alone(id_: int, refusal: LedgerRefused) -> Sequence[T]:
        quarantine_and_log(
            database, id_, str(refusal), now, still=lambda seen: seen.state in states
        )
        return ()

    def pass_over(id_: int) -> Sequence[T]:
        database.passed_over.note(id_, now)
        return ()

    taken = bisect_and_judge(
        ids,
        ask,
        alone=alone,
        suspects=suspects,
        id_of=lambda id_: id_,
        kinds=kinds,
        unproven=pass_over,
        on_locked=OnLocked(pass_over, budget, finds_again=True),
    )
    return [one for each in taken for one in each]

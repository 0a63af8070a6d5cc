"""Claiming due instants, and finding what the broker should have and does not."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.patience import FIRST_WAIT
from cronhare.domain.planning import Plan, Planned

Planner = Callable[[Planned], Plan]


@attrs.frozen(kw_only=True)
class Batch:
    """What one look at the plans did.

    *looked* counts the schedules, and *more* tells whether there may be others; *claimed* are the
    executions that this call inserted; *skipped* counts the instants recorded as skipped;
    *problems* pairs schedules that cannot be planned with the reason, where that is news.
    """

    looked: int = 0
    more: bool = False
    claimed: tuple[Execution, ...] = ()
    skipped: int = 0
    problems: tuple[tuple[str, str], ...] = ()


def ask(planner: Planner, planned: Planned) -> Plan:
    """Ask for a plan, as every store does: a planner's fault is that one schedule's problem.

    It may pass, or be this replica's alone: see `cursor_after`.
    """
    try:
        return planner(planned)
    except Exception as error:  # noqa: BLE001 - it must not keep the others from being planned
        return Plan(problem=f"{type(error).__name__}: {error}")


@attrs.frozen(kw_only=True)
class Graces:
    """How long something may be late before the reconciler sends it again."""

    claimed: timedelta = timedelta(seconds=10)
    retrying: timedelta = timedelta(seconds=5)
    published: timedelta = FIRST_WAIT


class ClaimStorePort(Protocol):
    """The plans and the claims. Safe to share between threads, processes and hosts.

    `overdue`, `unfinished` and `lapsed` may answer executions with a *problem*: somebody has spoilt
    their rows. By then they are quarantined, with a row in the archive, and found no more.

    Times are aware and in UTC; *now* is the ledger's own clock, `now()`, or what a test says.
    What tests/integration/test_claim_store_contract.py does not assert is not promised.

    Every method may raise `LedgerUnavailable`; the outcome is then unknown, and the call can be
    repeated.
    """

    def now(self) -> datetime:
        """Tell the ledger's time: the one clock that decides what is due and what has lapsed."""
        ...

    def claim_due(
        self,
        *,
        now: datetime,
        limit: int,
        node: str,
        planner: Planner,
        since: datetime | None = None,
    ) -> Batch:
        """Take up to *limit* plans that are due at *now*, claim what *planner* says, advance them.

        All of it is one transaction, which ends early once `INSTANTS_AT_ONCE` were looked at.
        Concurrent callers see disjoint plans, or wait; in any case a key is claimed by one of
        them, and only that one is answered the execution. A schedule that was edited since it was
        planned reaches *planner* marked so. With *since* plans that were due before it are left.

        A schedule that *planner* cannot plan stays due for others, as `cursor_after` says.
        """
        ...

    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        """Plan up to *limit* schedules that have no plan, or were edited after it was made.

        *since* bounds the search to rows that changed after it; None compares all rows.
        """
        ...

    def plan_problems(
        self, *, now: datetime, after: int, limit: int, node: str, planner: Planner
    ) -> tuple[Batch, int]:
        """Plan up to *limit* schedules that somebody could not plan, by id, from after *after* on.

        Answers the last id as well, from which to go on. An instant that was set aside is caught
        up as if it had been due since.
        """
        ...

    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        """Tell the earliest due instant of all plans, or of those later than *after*; or None."""
        ...

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """Note that these attempts' messages are in a queue: claimed → published.

        Those that went on in the meantime are left alone. A message that is still waiting for
        its time (`next_attempt_at` later than *now*) counts as overdue from that time on. One that
        was sent again waits for longer each time, as `domain/patience.py` says.
        """
        ...

    def hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """End these attempts, whose messages are in queues of other programs.

        Those that went on in the meantime are left alone.
        """
        ...

    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        """Let *overdue* find what was last sent before *since*: the broker may have lost it.

        Looks at up to *limit* of what is published or retrying, by id, from the one after *after*
        on; answers the id after which to go on, or None at the end. What was sent later, and what
        is sent again in a moment in any case, is left alone.
        """
        ...

    def overdue(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Execution]:
        """Find what should have begun and has not: claimed, published or retrying for too long.

        Finding it postpones its next time by a little: what is not confirmed then is found again.
        Concurrent callers get different ones.
        """
        ...

    def unfinished(self, *, after: int, limit: int) -> Sequence[Execution]:
        """List what is claimed, published or retrying, by id, from the one after *after* on.

        For a start beside a broker that remembers nothing.
        """
        ...

    def owners(self) -> Collection[str]:
        """Name the nodes that the ledger believes to be running something."""
        ...

    def lapsed(
        self, *, now: datetime, limit: int, gone: Collection[str] = ()
    ) -> Sequence[Execution]:
        """Find running attempts whose lease has lapsed, or whose node is known to be *gone*."""
        ...

    def regain(self, *, now: datetime) -> int:
        """Let *overdue* and *lapsed* find what they would never look at; answers how many.

        That is what waits or runs, and has no time at which to look: after an edit by hand.
        """
        ...

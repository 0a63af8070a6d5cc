"""Claiming due instants, and finding what the broker should have and does not."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Ended
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.messages.messages import AttemptRef
from cronhare.domain.schedules.planning import Planner


@attrs.frozen(kw_only=True)
class Batch:
    """What one look at the plans did.

    *looked* counts the schedules, and *more* tells whether there may be others; *claimed* are the
    executions that this call inserted; *skipped* counts the instants recorded as skipped;
    *problems* pairs schedules that cannot be planned with the reason, where that is news. *busy*
    counts those that were left out because somebody else holds their plans, or held what they were
    to be written into, less than a minute ago.
    """

    looked: int = 0
    more: bool = False
    claimed: tuple[Execution, ...] = ()
    skipped: int = 0
    problems: tuple[tuple[str, str], ...] = ()
    busy: int = 0


class ClaimStorePort(Protocol):
    """The plans and the claims. Safe to share between threads, processes and hosts.

    `overdue`, `unfinished`, `lapsed` and `run_by` may answer executions with a *problem*: somebody
    has spoilt their rows. By then they are quarantined, with a row in the archive, and found no
    more; those that could not be are answered in the state in which they were found, told in the
    log, and passed over for a minute by all but `unfinished`.

    Times are aware and in UTC; *now* is the ledger's own clock, `now()`, or what a test says.
    What tests/integration/test_claim_store_contract.py does not assert is not promised.

    Every method may raise `LedgerUnavailable`; the outcome is then unknown, and the call can be
    repeated. What the ledger refuses is set apart (ADR 31); a method raises `LedgerRefused` only
    where not even that can be written.
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
        until: datetime | None = None,
    ) -> Batch:
        """Take up to *limit* plans that are due at *now*, claim what *planner* says, advance them.

        All of it is one transaction, which ends early once `INSTANTS_AT_ONCE` were looked at.
        Concurrent callers see disjoint plans, or wait; in any case a key is claimed by one of
        them, and only that one is answered the execution. A schedule that was edited since it was
        planned reaches *planner* marked so. With *since* plans that were due before it are left,
        with *until* those that became due after it.

        A schedule that *planner* cannot plan stays due for others, as `cursor_after` says.
        """
        ...

    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        """Plan up to *limit* schedules that have no plan, or were edited after it was made.

        *since* bounds the search to rows that changed after it; None compares all rows. Nobody
        waits for a plan that another session holds: a replica's in its midst, or a person's.
        """
        ...

    def plan_problems(
        self,
        *,
        now: datetime,
        since: datetime | None,
        after: int,
        limit: int,
        node: str,
        planner: Planner,
    ) -> tuple[Batch, int]:
        """Plan up to *limit* schedules that somebody could not plan, by id, from after *after* on.

        Answers the last id as well, from which to go on. An instant that was set aside is caught
        up as if it had been due since. *since* bounds the search to what changed after it, and is
        due for nobody.
        """
        ...

    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        """Tell the earliest due instant of all plans, or of those later than *after*; or None."""
        ...

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """Note that these attempts' messages are in a queue: claimed → published.

        Those that went on in the meantime are left alone. A message that is still waiting for
        its time (`next_attempt_at` later than *now*) counts as overdue from that time on. One that
        was sent again waits for longer each time, as `domain/lifecycle/redelivery.py` says.
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
        on; answers the id after which to go on, or None at the end. What waits for its own time is
        found a little after it. What was sent later, and what is sent again in a moment in any
        case, is left alone.
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

    def lapsed(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        """Find running attempts whose lease has lapsed; one that ends at *now* has."""
        ...

    def run_by(self, nodes: Collection[str], *, limit: int) -> Sequence[Execution]:
        """Find the attempts that *nodes* run, lapsed or not, and nobody else's."""
        ...

    def regain(self, *, now: datetime, limit: int) -> int:
        """Let *overdue* and *lapsed* find what they would never look at; answers how many.

        That is what waits or runs, and has no time at which to look: after an edit by hand. At most
        *limit* of what waits, and as many of what runs.
        """
        ...

    def mark_ends_published(self, ends: Collection[AttemptRef]) -> None:
        """Note that the messages which follow these last attempts need not be sent any more.

        They are in a queue, or none can be made of what the archive says.
        """
        ...

    def overdue_ends(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Ended]:
        """Find ends for good whose messages should be in a queue, the earliest first.

        They are those that attempts came to, and that nobody has resolved since. Finding one
        postpones its next time by the grace. Concurrent callers get different ones. What was
        archived by a ledger that kept no account of this counts as published, and so does a row
        that somebody has spoilt: its reader would park what could be made of it.
        """
        ...

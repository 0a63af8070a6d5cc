"""Starting attempts, renewing their leases, recording their ends; and who runs them."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import CatchUp, Limited
from cronhare.domain.lifecycle.transitions import state_after
from cronhare.domain.messages import Nacks, TaskMessage
from cronhare.domain.nodes import NodeReport, NodeReports
from cronhare.domain.retries.limits import UNLIMITED, RetryLimits
from cronhare.domain.retries.retry import Hold, Holder, Verdict

from .runner import AttemptResult, Written


@attrs.frozen(kw_only=True)
class StartRequest:
    """Asks for the start of one attempt; *nacks* are None if there is no message of it."""

    execution_id: int
    attempt: int
    nacks: Nacks | None


@attrs.frozen
class Refused:
    """The attempt may not start, and why. *gate* holds it back from now on: see `let_go`."""

    reason: str
    unknown: bool = False
    gate: str | None = None


@attrs.frozen
class Busy:
    """Another session holds its row. Nothing was changed: ask again later."""


@attrs.frozen(kw_only=True)
class Deferred:
    """A retry that an outage held up waits for its place among others: see `CatchUp`.

    The *execution* is as it was written *at* that moment. The message that came is spent.
    """

    execution: Execution
    at: datetime


#: The answer to a request for a start.
StartAnswer: TypeAlias = Execution | Refused | Deferred | Busy


@attrs.frozen(kw_only=True)
class Finish:
    """The end of an attempt: its result, the verdict on its execution, and a retry's limits."""

    execution: Execution
    ran: AttemptResult
    verdict: Verdict
    limits: RetryLimits = UNLIMITED

    def as_recorded(self, answer: "Recorded") -> tuple["Finish", "State | Superseded"]:
        """Give it with the verdict that was recorded, and what became of its execution."""
        if not isinstance(answer, Limited):
            return self, answer
        return attrs.evolve(self, verdict=answer.verdict), state_after(answer.verdict)


@attrs.frozen
class Superseded:
    """The result came too late: this node no longer owned the attempt."""


#: The answer to a finish: the state of the execution now, or why the end is not recorded. If the
#: ledger refuses to record it, the verdict is a quarantine that says how it ended, and why.
Recorded: TypeAlias = State | Limited | Superseded


@attrs.frozen(kw_only=True)
class Renewal:
    """Which attempts a node still owns; of those in *busy* another session holds the rows."""

    held: frozenset[int]
    cancel_requested: frozenset[int]
    busy: frozenset[int] = frozenset()


class AttemptStorePort(Protocol):
    """The attempts. Safe to share between threads, processes and hosts.

    A batch is one transaction; after a refusal each half of it is one. Answers come in the order
    of the questions. What is refused alone is set apart (ADR 15): no method raises
    `LedgerRefused`. No call waits for a row that another session holds, a person's for example:
    that one is `Busy`.
    Every method may raise `LedgerUnavailable`; the outcome is then unknown, and the call can be
    repeated: what the first one did is answered again.
    """

    def start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None = None,
    ) -> Sequence[StartAnswer]:
        """The start fence: of all who ask to start an attempt, exactly one does.

        An attempt starts if its execution waits for exactly that number (claimed, published or
        retrying), no cancel is requested, and no message asks for what is the system's own, or too
        early (ADR 6). What its gates keep from starting is held back instead (ADR 18); it is `Busy`
        while another start or `let_go` is at one of its gates. Nacks count as failures, as far as
        the time since the publish allows. The winner's execution is running, owned by *node* until
        ``now + lease``; if *node* owns it already its lease begins anew. A request without an
        answer must be repeated until it has one, or the ledger may say "running" of what no worker
        runs; unless `LedgerUnavailable.changed_nothing` says that none of these was written.
        """

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[Recorded | Busy]:
        """Record results, output and verdicts of attempts that *node* owns.

        Answers the state of the execution now: a requested cancel wins over the verdict. Failures
        are archived, and retries held against their limits, in the same transaction: where that
        changes the verdict, or is to be told, the answer is `Limited`; so is an end that is
        refused, with a quarantine. What *node* has recorded before is answered again.
        """

    def give_up(self, finishes: Sequence[Finish], *, now: datetime) -> Sequence[Recorded | Busy]:
        """Record the end of attempts whose owner is gone (see `ClaimStorePort.lapsed`).

        Superseded if the `version` has changed: the owner has renewed its lease, or finished.
        """

    def previous_success(self, execution: Execution) -> datetime | None:
        """Give when the run was due that succeeded last, of those due before this one.

        It is one of its schedule, however it was begun; None if none has, or none is kept.
        """

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        """Extend the leases of those that *node* owns to ``now + lease``: each a new version."""

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        """Keep the output up to *now* of running attempts that *node* owns, and of no others.

        It replaces what was kept before. The finish replaces it; of a lost attempt it stays.
        """

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        """Give a foreign message an execution, claimed and waiting for its first attempt.

        *queue* is where it came from, and where each attempt is published. Adopting the same key
        again answers the row that is there. Refused if its schedule is unknown, or the system's
        own. Busy while another session keeps executions of its schedule from being inserted.
        """

    def count_unheard(self, topic: str, *, now: datetime) -> None:
        """Count an event that was completed although nobody listened: see `Unheard`.

        Raises:
            LedgerRefused: it cannot be counted; nothing else has changed.
        """


class RedeliveryStorePort(Protocol):
    """Keeps the notes. Every method may raise `LedgerUnavailable`, and can be repeated."""

    def hold(self, message: str, *, holder: Holder, now: datetime) -> Sequence[Hold]:
        """Note that *holder* takes a message; answers the others' notes, the oldest first.

        Notes of that message that are older than `KEPT_FOR` are forgotten.
        """

    def let_go(self, message: str, *, node: str) -> None:
        """Take back the note of a node, if there is one."""


class NodeStorePort(Protocol):
    """Keeps the newest report of each node."""

    def report(self, report: NodeReport, *, kept_for: timedelta) -> bool:
        """Keep a report in place of the node's last one; answers whether it is to be drained.

        That stays as the ledger has it, or else as the report says. A node's first report deletes
        those of nodes that were seen longer than *kept_for* before it; or after it.
        """

    def drain(self, name: str, *, asked_at: datetime | None) -> bool:
        """Ask a node to take no more work, or with None take that back; False if it is unknown.

        It hears of it with its next report.
        """

    def forget(self, name: str) -> None:
        """Delete the report of a node, and leave its notes. Safe to repeat."""

    def remove(self, name: str) -> None:
        """Delete the report of a node that ends in good order, and its notes. Safe to repeat."""

    def nodes(self, *, now: datetime, limit: int) -> NodeReports:
        """List the reports of the *limit* nodes seen last, the newest first, then by name.

        Those seen `SILENT_AFTER` later than *now* come last. Broken rows are counted.
        """

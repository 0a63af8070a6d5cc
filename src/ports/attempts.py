"""Starting attempts, renewing their leases, and recording their ends."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.catching_up import CatchUp
from cronhare.domain.lifecycle.retry_limits import AttemptEnd, LimitChange
from cronhare.domain.lifecycle.transitions import state_after
from cronhare.domain.messages.messages import TaskMessage
from cronhare.domain.messages.nack_count import Nacks
from cronhare.domain.retries.limits import UNLIMITED, RetryLimits
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.retries.retry import Fail, RetryAfter, Verdict

from .runner import AttemptResult, Written


@attrs.frozen(kw_only=True)
class StartRequest:
    """Asks for the start of one attempt.

    *nacks* come from the headers of its message; None if the system itself asks, without one.
    """

    execution_id: int
    attempt: int
    nacks: Nacks | None


@attrs.frozen
class Refused:
    """The attempt may not start, and why; *unknown* if the ledger has no such execution.

    *gate* names what holds the execution back from now on: its message is spent.
    """

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

    def standing(self, execution: Execution) -> AttemptEnd:
        """Give what the limits are asked about, of the *execution* as it stands in the ledger."""
        return AttemptEnd(
            execution=execution,
            ending=self.ran.outcome.ending,
            verdict=self.verdict,
            limits=self.limits,
        )

    def as_recorded(self, answer: "Recorded") -> tuple["Finish", "State | Superseded"]:
        """Give it with the verdict that was recorded, and what became of its execution."""
        if not isinstance(answer, Limited):
            return self, answer
        return attrs.evolve(self, verdict=answer.verdict), state_after(answer.verdict)

    def repeated(
        self,
        ending: str | None,
        *,
        state: State,
        attempt: int,
        last_error: str | None,
        next_attempt_at: datetime | None,
        now: datetime,
    ) -> "Recorded":
        """Answer a finish whose attempt has ended already, the same way in every store.

        *ending* is that of the attempt's row, None if another node owned it; *state*, *attempt*,
        *last_error* and *next_attempt_at* are the execution's. An attempt that was given up as lost
        has no result.
        """
        if ending != self.ran.outcome.ending or ending == Ending.LOST:
            return Superseded()
        wanted, is_limited = state_after(self.verdict), self.limits != UNLIMITED
        if attempt != self.execution.attempt:
            if is_limited and state is State.RETRYING and attempt == self.execution.attempt + 1:
                delay = max((next_attempt_at or now) - now, timedelta(0))
                return Limited(RetryAfter(delay, last_error or ""))
            return wanted
        if is_limited and state is State.FAILED and wanted is State.RETRYING:
            return Limited(Fail(last_error or ""))
        return state


@attrs.frozen
class Superseded:
    """The result came too late: this node no longer owned the attempt."""


@attrs.frozen
class Limited:
    """Recorded with the *verdict* that the retry's limits left, which may be the one asked for.

    *changes* of the limits are to be told: no other answer has them. If the ledger refuses to
    record an end, the verdict is a quarantine that says how the attempt ended, and why (ADR 15).
    """

    verdict: Verdict
    changes: tuple[LimitChange, ...] = ()


#: The answer to a finish: the state of the execution now, or why the end is not recorded.
Recorded: TypeAlias = State | Limited | Superseded


@attrs.frozen(kw_only=True)
class Renewal:
    """Which attempts a node still owns, and for which of them a cancel is requested.

    Of those in *busy* another session holds the rows: their leases are as they were.
    """

    held: frozenset[int]
    cancel_requested: frozenset[int]
    busy: frozenset[int] = frozenset()


class AttemptStorePort(Protocol):
    """The attempts. Safe to share between threads, processes and hosts.

    A batch is one transaction; after a refusal each half of it is one. Answers come in the order
    of the questions. What is refused alone is set apart (ADR 15): no method raises
    `LedgerRefused`. No call waits for a row that another session holds, a person's for example:
    that one is `Busy`.

    What tests/integration/test_attempt_store_contract.py does not assert is not promised.
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
        retrying), no cancel is requested, and no message asks for what is the system's own, or
        too early (ADR 6). What its gates keep from starting is held back instead: never more
        attempts with a key run than its limit (ADR 18); it is `Busy` while another start or
        `let_go` is at one of its gates. Nacks count as failures, as far as the time since the
        publish allows. The winner's execution is running, owned by *node* until ``now + lease``,
        with its attempt recorded. If *node* owns it already its lease begins anew: a start can be
        repeated at any time. A request without an answer must be repeated until it has one, or the
        ledger may say "running" of what no worker runs; unless
        `LedgerUnavailable.changed_nothing` says each time that none of these starts was written.
        """
        ...

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[Recorded | Busy]:
        """Record results, output and verdicts of attempts that *node* owns.

        Answers the state of the execution now: a requested cancel wins over the verdict, and the
        result is kept with the attempt. Failures are archived in the same transaction. A result
        that *node* recorded before changes nothing, and is answered again. Of an end that is
        refused is answered as `Limited` to a quarantine.

        A retry is held against its limits in the same transaction, for all nodes alike: none is
        granted twice, or by a finish that was not recorded. Where they change the verdict, or
        something of them is to be told, the answer is `Limited`.
        """
        ...

    def give_up(self, finishes: Sequence[Finish], *, now: datetime) -> Sequence[Recorded | Busy]:
        """Record the end of attempts whose owner is gone (see `ClaimStorePort.lapsed`).

        Retries have limits here too.
        Superseded if the `version` has changed: the owner has renewed its lease, or finished.
        """
        ...

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        """Extend the leases of those that *node* owns to ``now + lease``: each a new version."""
        ...

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        """Keep the output up to *now* of running attempts that *node* owns, and of no others.

        It replaces what was kept before. The finish replaces it; of a lost attempt it stays.
        """
        ...

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        """Give a foreign message an execution, claimed and waiting for its first attempt.

        *queue* is where it came from, and where each attempt is published. Adopting the same key
        again answers the row that is there. Refused if its schedule is unknown, or the system's
        own. Busy while another session keeps executions of its schedule from being inserted.
        """
        ...

    def count_unheard(self, topic: str, *, now: datetime) -> None:
        """Count an event that was completed although nobody listened: see `Unheard`.

        *topic* names it, or its task's type and number do. If it is called again without need, it
        counts again.

        Raises:
            LedgerRefused: it cannot be counted; nothing else has changed.
        """
        ...

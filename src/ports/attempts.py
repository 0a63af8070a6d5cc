"""Starting, keeping and ending attempts."""

import enum
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.transitions import state_after
from cronhare.domain.messages.messages import TaskMessage
from cronhare.domain.messages.nack_count import Nacks
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.retries.retry import Verdict

from .runner import AttemptResult, Written


@attrs.frozen(kw_only=True)
class StartRequest:
    """A wish to start one attempt.

    *nacks* is what its message tells; None if no message asks for it, but the system itself.
    """

    execution_id: int
    attempt: int
    nacks: Nacks | None


@attrs.frozen
class Refused:
    """The attempt may not start: it did already, or something else was decided.

    *unknown* tells that the ledger has never heard of it, or has forgotten it.
    """

    reason: str
    unknown: bool = False


@attrs.frozen
class Busy:
    """It cannot be had at this moment. Nothing was changed: ask again.

    Somebody else holds its row; or a rule refuses all changes of its kind, beside others that are
    accepted (ADR 31). Where *is_asked* is false it was not even tried, as so many others were held.
    """

    is_asked: bool = True


@attrs.frozen(kw_only=True)
class Finish:
    """The end of an attempt: how it ran, and what was decided of its execution."""

    execution: Execution
    ran: AttemptResult
    verdict: Verdict

    def repeated(
        self, ending: str | None, *, state: State, attempt: int, last_error: str | None
    ) -> "Recorded":
        """Answer a finish whose attempt has ended before, as every store does.

        *ending* is what the attempt's row says if it was this node's; the others are the
        execution's now. What another one gave up as lost was never this one's result.
        """
        if ending != self.ran.outcome.ending or ending == Ending.LOST:
            return Superseded()
        wanted = state_after(self.verdict)
        if attempt != self.execution.attempt:
            return wanted
        if state is State.QUARANTINED and wanted is not State.QUARANTINED:
            return EndRefused(last_error or "")
        return state


@attrs.frozen
class Superseded:
    """The result came too late: the attempt was no longer this node's to finish."""


class Apart(enum.Enum):
    """What could be written of an execution of which the database refuses something."""

    ARCHIVED = "quarantined, with a row in the archive"
    UNARCHIVED = "quarantined, without one"
    NEITHER = "left as it is, and passed over for a while"


@attrs.frozen
class EndRefused:
    """The database refuses to record this end; the execution is set apart for it (ADR 31).

    *reason* says how the attempt ended, and what the database says.
    """

    reason: str
    apart: Apart = Apart.ARCHIVED

    @property
    def is_over(self) -> bool:
        """Tell whether the execution has ended by it, or its lease has still to lapse."""
        return self.apart is not Apart.NEITHER


#: What becomes of an end: the state that its execution is in now, or why it is not recorded.
Recorded: TypeAlias = State | EndRefused | Superseded


@attrs.frozen(kw_only=True)
class Renewal:
    """Which attempts a node still holds, and which of them somebody wants cancelled.

    Those in *busy* it may hold: somebody else has their rows, and their leases are as they were.
    """

    held: frozenset[int]
    cancel_requested: frozenset[int]
    busy: frozenset[int] = frozenset()


class AttemptStorePort(Protocol):
    """The attempts. Safe to share between threads, processes and hosts.

    Batches are one transaction each, and after a refusal each half of them is; their answers come
    in the order of the questions. What is refused alone is set apart (ADR 31): no method raises
    `LedgerRefused`. Nobody waits for a row that another session holds, a person's say: it is
    `Busy`, for itself alone.

    What tests/integration/test_attempt_store_contract.py does not assert is not promised.
    Every method may raise `LedgerUnavailable`; the outcome is then unknown, and the call can be
    repeated: what the first one did is answered again.
    """

    def start(
        self, requests: Sequence[StartRequest], *, now: datetime, node: str, lease: timedelta
    ) -> Sequence[Execution | Refused | Busy]:
        """The start fence: of all who wish to start an attempt, one does.

        An attempt starts if its execution waits for exactly that number (claimed, published or
        retrying), no cancel is requested, and no message asks for what is the system's own, or for
        what has still to wait (ADR 35). Nacks
        count as failures, as far as the time since the publish allows. The winner's execution is
        running, owned by *node* until ``now + lease``, with its attempt recorded. Of what *node*
        holds already only the lease begins anew: a start can be repeated, long after the first one
        was heard. So what got no answer is to be asked for until it gets one, or an attempt may be
        running that nobody runs; unless `LedgerUnavailable.changed_nothing` says of each question
        that none of these starts was written.
        """
        ...

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[Recorded | Busy]:
        """Record results, output and verdicts of attempts that *node* holds.

        Answers the state that the execution is in now: a requested cancel wins over the verdict,
        whose result is kept with the attempt. Failures are archived in the same transaction. A
        result that *node* has recorded before changes nothing, and is answered once more. Of an
        end that is refused only the ending is kept, as far as that is not refused as well.
        """
        ...

    def give_up(self, finishes: Sequence[Finish], *, now: datetime) -> Sequence[Recorded | Busy]:
        """Record the end of attempts whose owner is gone (see `ClaimStorePort.lapsed`).

        Superseded if the owner has renewed its lease, or finished, since it was found: its
        `version` tells.
        """
        ...

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        """Hold these attempts until ``now + lease``; a renewal counts as a new version.

        What *node* no longer owns stays so.
        """
        ...

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        """Keep what attempts that run, and that *node* owns, have written up to *now*.

        It replaces what was kept of them before, and the finish replaces it in turn; if they are
        lost, it stays. Of all other attempts nothing is kept.
        """
        ...

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        """Give a foreign message a row of the ledger, claimed and waiting for its first attempt.

        *queue* is where it came from, and where each of its attempts is to be published. Adopting
        the same key again answers the row that is there. Refused if its schedule is unknown, or is
        the system's own. Busy while somebody keeps executions of its schedule from being inserted.
        """
        ...

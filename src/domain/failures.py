"""What the failed queue says: failures of our own workers, and of others that share our queues."""

from collections.abc import Mapping
from datetime import UTC, datetime

import attrs
import msgspec

from .execution import STARTABLE, UNFINISHED, Execution, State
from .keys import reported_key
from .messages import SIGNED, FailedMessage, Ticket, Unreadable, ticket_of
from .params import fault_of_params
from .signing import Seal

#: Beside a whole task message there is room for a long reason.
LARGEST_FAILED = 1024 * 1024


@attrs.frozen(kw_only=True)
class Failure:
    """A failed message understood.

    Without a *ticket* the task was published by somebody else; *key* then names its run. *proven*
    tells that its sender has had the message of that ticket in hand, which one of our keys signed.
    *failed_at* is None where the message gives no time that could be read.
    """

    message: FailedMessage
    failed_at: datetime | None
    key: str
    ticket: Ticket | None
    proven: bool = False

    def speaks_of(self, execution: Execution) -> bool:
        """Whether its ticket can name this execution: one of another schedule is none."""
        return execution.scheduler_id == self.message.scheduler_id

    def ends(self, execution: Execution) -> bool:
        """Whether it ends the execution that its ticket names.

        Who was handed an execution over may say that it failed. If it waits here for that very
        attempt, anybody may claim so: it has to be proven.
        """
        if self.ticket is None or execution.attempt != self.ticket.attempt:
            return False
        waits = execution.state in STARTABLE
        return execution.state is State.HANDED_OVER or (self.proven and waits)

    def contradicts(self, execution: Execution) -> bool:
        """Whether it tells the end of an attempt that the ledger does not know to have ended."""
        unknown = self.ticket is not None and execution.attempt <= self.ticket.attempt
        return unknown and execution.state in UNFINISHED and not self.ends(execution)


def read_failed(body: bytes, headers: Mapping[str, object], seal: Seal) -> Failure | Unreadable:
    """Understand a failed message, or say why it cannot be understood."""
    if len(body) > LARGEST_FAILED:
        return Unreadable(f"the body has {len(body)} bytes, {LARGEST_FAILED} are allowed")
    try:
        message = msgspec.json.decode(body, type=FailedMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unreadable(f"the body is not a failed message: {error}")
    if fault := fault_of_params(message.params_scheduler):
        return Unreadable(f"params_scheduler: {fault}")
    return Failure(
        message=message,
        failed_at=_moment(message.failed_at),
        key=reported_key(body),
        ticket=ticket_of(headers),
        proven=seal.holds(message.task_body(), headers, of=SIGNED),
    )


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None

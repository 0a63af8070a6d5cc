"""What the failed queue says: failures of our own workers, and of others that share our queues."""

from collections.abc import Mapping
from datetime import UTC, datetime

import attrs
import msgspec

from .execution import REPLAYABLE, STARTABLE, Execution, State
from .keys import reported_key
from .messages import (
    SIGNED,
    FailedMessage,
    Ticket,
    Unreadable,
    fault_of_carried,
    fault_of_foreign,
    fault_of_seal,
    ticket_of,
)
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

    def agrees_with(self, execution: Execution) -> bool:
        """Whether the execution that its ticket names has ended badly with that attempt."""
        ended = self.ticket is not None and execution.attempt == self.ticket.attempt
        return ended and execution.state in REPLAYABLE


def read_failed(body: bytes, headers: Mapping[str, object], seal: Seal) -> Failure | Unreadable:
    """Understand a failed message, or say why it cannot be understood."""
    if len(body) > LARGEST_FAILED:
        return Unreadable(f"the body has {len(body)} bytes, {LARGEST_FAILED} are allowed")
    try:
        message = msgspec.json.decode(body, type=FailedMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unreadable(f"the body is not a failed message: {error}")
    ticket, task = ticket_of(headers), message.task_body()
    fault = fault_of_carried(message) if ticket else fault_of_foreign(message)
    if fault := fault or fault_of_seal(task, headers, seal):
        return Unreadable(fault)
    return Failure(
        message=message,
        failed_at=_moment(message.failed_at),
        key=reported_key(body),
        ticket=ticket,
        proven=seal.holds(task, headers, of=SIGNED),
    )


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None

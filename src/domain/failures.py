"""What the failed queue says: failures of our own workers, and of others that share our queues."""

from collections.abc import Mapping
from datetime import UTC, datetime

import attrs
import msgspec

from .execution import STARTABLE, Execution
from .keys import reported_key
from .messages import FailedMessage, Ticket, Unreadable, ticket_of

#: Beside a whole task message there is room for a long reason.
LARGEST_FAILED = 1024 * 1024


@attrs.frozen(kw_only=True)
class Failure:
    """A failed message understood.

    Without a *ticket* the task was published by somebody else; *key* then names its run.
    *failed_at* is None where the message gives no time that could be read.
    """

    message: FailedMessage
    failed_at: datetime | None
    key: str
    ticket: Ticket | None

    def speaks_of(self, execution: Execution) -> bool:
        """Whether its ticket can name this execution: one of another schedule is none."""
        return execution.scheduler_id == self.message.scheduler_id

    def ends(self, execution: Execution) -> bool:
        """Whether the execution that its ticket names still waits for the attempt that failed."""
        waits = execution.state in STARTABLE
        return waits and self.ticket is not None and execution.attempt == self.ticket.attempt


def read_failed(body: bytes, headers: Mapping[str, object]) -> Failure | Unreadable:
    """Understand a failed message, or say why it cannot be understood."""
    if len(body) > LARGEST_FAILED:
        return Unreadable(f"the body has {len(body)} bytes, {LARGEST_FAILED} are allowed")
    try:
        message = msgspec.json.decode(body, type=FailedMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unreadable(f"the body is not a failed message: {error}")
    return Failure(
        message=message,
        failed_at=_moment(message.failed_at),
        key=reported_key(body),
        ticket=ticket_of(headers),
    )


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None

"""Messages of the failed queue: from our own workers, and from others that share our queues."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import attrs
import msgspec

from ..execution import REPLAYABLE, STARTABLE, Execution, State
from ..messages.messages import (
    SIGNED,
    AttemptRef,
    FailedMessage,
    Unreadable,
    fault_of_carried,
    fault_of_foreign,
    fault_of_seal,
    ticket_of,
)
from ..messages.signing import Seal
from ..schedules.keys import reported_key
from ..schedules.task import TaskRef
from ..texts.moments import read_iso

#: Bytes: a whole task message, and room for a long reason.
LARGEST_FAILED = 1024 * 1024


@attrs.frozen(kw_only=True)
class Failure:
    """A failed message, decoded.

    Without a *ticket* another program published the task; *key* then names its run. *proven* says
    that its sender had the message of that ticket, which one of our keys signed. *failed_at* is
    None if the message has no readable time.
    """

    message: FailedMessage
    failed_at: datetime | None
    key: str
    ticket: AttemptRef | None
    proven: bool = False

    def judge(
        self, execution: Execution | None, *, is_archived: Callable[[], bool]
    ) -> "Execution | Unproven | None":
        """Say whether the *execution* that the ticket names ends by this message.

        Answers the execution if it does; None if it has failed with that attempt already, or if
        that *is_archived*: it may have been replayed since, or cleaned up.

        The program that an execution was handed over to may say that it failed. For one that waits
        here for that attempt the message has to be *proven*: anybody could have sent it.
        """
        assert self.ticket is not None, "there is nothing to be judged"
        if execution is not None and execution.scheduler_id != self.message.scheduler_id:
            execution = None  # of another schedule: the ticket cannot name it
        if execution is not None and execution.attempt == self.ticket.attempt:
            if execution.state is State.HANDED_OVER or (
                self.proven and execution.state in STARTABLE
            ):
                return execution
            if execution.state in REPLAYABLE:
                return None
        if is_archived():
            return None
        return Unproven(self.ticket, None if execution is None else execution.state)

    @property
    def run(self) -> dict[str, Any]:
        """The run of another program's task, as fields of its execution."""
        message = self.message
        return {
            "key": self.key,
            "task": TaskRef(message.type, message.id),
            "params": message.params_scheduler,
            "attempt": message.retry_count + 1,
        }


@attrs.frozen
class Unproven:
    """A failure of *ticket* that is not believed; *state* is None if there is no such execution."""

    ticket: AttemptRef
    state: State | None


def read_failed(body: bytes, headers: Mapping[str, object], seal: Seal) -> Failure | Unreadable:
    """Decode a failed message, or say why it cannot be decoded or believed."""
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
        moment = read_iso(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None

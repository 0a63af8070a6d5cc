"""Logging queues that do not exist: at once, and then ever more rarely."""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Self

import attrs

from cronhare.domain.diagnosis.starting import UP_WITH_ITS_TASK, serve_missing, start_standalone
from cronhare.domain.execution import Execution
from cronhare.domain.messages.messages import AttemptRef
from cronhare.domain.schedules.standalone import is_standalone
from cronhare.domain.texts.words import counted, listed
from cronhare.domain.topology import first_queue, is_ours
from cronhare.ports.broker import Envelope, Published

from ..log_limiter import LogLimiter
from ..logs import say

log = logging.getLogger(__name__)

#: So many schedules and executions are named in a line.
MOST_NAMED: Final = 5


@attrs.frozen(kw_only=True)
class Sent:
    """A published message, and the attempt that it is about."""

    envelope: Envelope
    ticket: AttemptRef
    schedule_name: str

    @classmethod
    def of(cls, envelope: Envelope, execution: Execution) -> Self:
        """Make it of a message about the present attempt of *execution*."""
        return cls(
            envelope=envelope,
            ticket=AttemptRef(execution_id=execution.id, attempt=execution.attempt),
            schedule_name=execution.schedule_name,
        )


class MissingQueues:
    """Logs queues that do not exist.

    Their messages are sent again every few seconds, so that they are there soon after the queue.
    Threads may share this: at worst a line is logged twice.
    """

    def __init__(self, *, in_memory: bool) -> None:
        """*in_memory* is what the broker is: only `cronhare up` serves its queues."""
        self._in_memory = in_memory
        self._limiter = LogLimiter()

    def note(self, sent: Iterable[Sent], outcomes: Sequence[Published], *, now: datetime) -> None:
        """Take note of what became of a batch, and log missing queues where that is due."""
        if not self._limiter and Published.RETURNED not in outcomes:
            return
        returned = dict[str, list[Sent]]()
        for each, outcome in zip(sent, outcomes, strict=True):
            queue = first_queue(each.envelope.to)
            if outcome is Published.RETURNED:
                returned.setdefault(queue, []).append(each)
            elif outcome is Published.CONFIRMED:
                self._limiter.reset(queue)
        for queue, messages in returned.items():
            self._log(queue, messages, now)

    def _log(self, queue: str, returned: Sequence[Sent], now: datetime) -> None:
        if not self._limiter.is_due(queue, now.timestamp()):
            return
        advice = _advice_on_ours if is_ours(queue) else self._advice_on_tasks
        text = (
            f"The broker returned {counted(len(returned), 'message')}: there is no queue {queue}. "
            f"What came back is sent again until there is: {advice(queue, returned)}"
        )
        say(log, logging.ERROR, "publish.returned", text)

    def _advice_on_tasks(self, queue: str, returned: Sequence[Sent]) -> str:
        schedules = sorted({each.schedule_name for each in returned})
        return (
            f"{self._who_serves(queue, schedules)}. Or "
            f"correct `queue` of {listed(schedules, most=MOST_NAMED)}, and let go of what waits: "
            f"cronhare executions cancel ID, of {_ids(returned)}"
        )

    def _who_serves(self, queue: str, schedules: Sequence[str]) -> str:
        if is_standalone(queue) and not self._in_memory:
            start = start_standalone(schedules[:1], None)
            return f"each of its schedules needs a worker: {start}; or {UP_WITH_ITS_TASK}"
        return serve_missing(queue, in_memory=self._in_memory)


def _advice_on_ours(_queue: str, returned: Sequence[Sent]) -> str:
    return (
        "it is one of our own, or what leads to it is, and somebody deleted it. It is declared "
        f"anew. The messages are of executions {_ids(returned)}"
    )


def _ids(returned: Sequence[Sent]) -> str:
    return listed([str(each.ticket.execution_id) for each in returned], most=MOST_NAMED)

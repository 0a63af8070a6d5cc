"""Publishing attempts, and marking them as published in the ledger."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.redelivery import DOUBTED_AFTER
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.messages.messages import TRACE_HEADER, headers_of, task_body
from cronhare.domain.messages.signing import Seal
from cronhare.domain.texts.moments import say_time
from cronhare.domain.texts.words import counted, listed
from cronhare.domain.topology import LONGEST_LANE_DELAY, ToQueue
from cronhare.ports.broker import BrokerPort, Envelope, Message, Published
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.system import NOT_TRACED, SILENT, MetricsPort, SpanKind, TracingPort

from ..logs import say
from .missing_queues import MOST_NAMED, MissingQueues, Sent

log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class PublishResult:
    """How many messages of a batch are in a queue, came back, were refused, or are in doubt.

    *unreachable* are the queues that took no message, of those about which the broker answered.
    """

    published: int = 0
    returned: int = 0
    refused: int = 0
    unknown: int = 0
    unreachable: frozenset[str] = frozenset()

    @property
    def is_answered(self) -> bool:
        """Whether the broker answered at all: it is there, even if queues are full or missing."""
        return self.published + self.returned + self.refused > 0


@attrs.frozen(kw_only=True)
class _Doubted:
    """What was sent before *since* may be lost; rows up to the id *after* are marked."""

    since: datetime
    after: int = -LARGEST_ID


def envelope(
    execution: Execution, *, now: datetime, seal: Seal, trace: str | None = None
) -> Envelope:
    """Make the message of the execution's coming attempt, signed, delayed until its time.

    *trace* is the `traceparent` of the span that its delivery goes on from.
    """
    body = task_body(execution)
    headers = seal.sign(body, headers_of(execution))
    if trace is not None:
        headers[TRACE_HEADER] = trace
    return Envelope(
        Message(body=body, headers=headers, id=execution.message_id),
        ToQueue(execution.queue, wait(execution, now=now)),
    )


def is_carried(execution: Execution, *, now: datetime) -> bool:
    """Tell whether the coming attempt is sent as a message: the lanes must reach far enough.

    The system's own executions never are.
    """
    return not execution.task.is_system and wait(execution, now=now) <= LONGEST_LANE_DELAY


def wait(execution: Execution, *, now: datetime) -> timedelta:
    """Say how long the coming attempt still has to wait."""
    due = execution.next_attempt_at
    return timedelta(0) if due is None else max(due - now, timedelta(0))


class ExecutionPublisher:
    """Publishes attempts. What is in doubt is left to the reconciler."""

    def __init__(
        self,
        *,
        broker: BrokerPort,
        claims: ClaimStorePort,
        run_system_task: Callable[[Execution, datetime], None],
        seal: Seal,
        in_memory: bool,
        foreign_queues: Collection[str] = (),
        metrics: MetricsPort = SILENT,
        tracing: TracingPort = NOT_TRACED,
    ) -> None:
        """*run_system_task* runs the system's own executions, which no worker is asked to run.

        *in_memory* says where the broker is.
        An execution that arrives in one of *foreign_queues* is marked as handed over.
        """
        self._broker = broker
        self._claims = claims
        self._run_system_task = run_system_task
        self._silent_since: datetime | None = None
        self._away = False
        self._doubt: _Doubted | None = None
        self._seal = seal
        self._foreign_queues = frozenset(foreign_queues)
        self._metrics = metrics
        self._tracing = tracing
        self.missing_queues = MissingQueues(in_memory=in_memory)

    def publish(self, executions: Sequence[Execution], *, now: datetime) -> PublishResult:
        """Publish the coming attempts of *executions*.

        One that waits for longer than the lanes reach is published by the reconciler when it is
        due.
        """
        result = self._publish([each for each in executions if is_carried(each, now=now)], now)
        for execution in executions:  # last: it may take long, or fail
            if execution.task.is_system:
                self._run_system_task(execution, now)
        return result

    def can_publish(self) -> bool:
        """Tell whether the broker can be reached from here, as far as is known."""
        return self._broker.is_reachable()

    def check_broker(self, now: datetime) -> None:
        """Notice an outage of the broker during which nothing was published.

        It may have lost its messages.
        """
        if not self._broker.is_reachable():
            self._silent_since, self._away = self._silent_since or now, True
        elif self._away:
            self._is_back(now)

    def mark_doubtful(self, now: datetime, *, limit: int) -> bool:
        """Have up to *limit* messages sent again that the broker may have lost in an outage.

        Answers whether there may be more. Messages that others sent during our outage are left
        alone: the broker was there for them, and they notice outages of their own.
        """
        doubt = self._doubt
        if doubt is None:
            return False
        after = self._claims.doubt(since=doubt.since, now=now, after=doubt.after, limit=limit)
        if self._doubt is doubt:  # or the broker came back once more
            self._doubt = None if after is None else attrs.evolve(doubt, after=after)
        return self._doubt is not None

    def _publish(self, sendable: Sequence[Execution], now: datetime) -> PublishResult:
        if not sendable:
            return PublishResult()
        was_there = self._broker.is_reachable()
        with self._tracing.span("publish", kind=SpanKind.PRODUCER, messages=len(sendable)) as span:
            trace = self._tracing.current()
            envelopes = [
                envelope(execution, now=now, seal=self._seal, trace=trace) for execution in sendable
            ]
            outcomes = self._broker.publish(envelopes)
            if unsent := sum(outcome is not Published.CONFIRMED for outcome in outcomes):
                span.fail(f"{unsent} messages are not known to have arrived")
        confirmed = [
            execution
            for execution, outcome in zip(sendable, outcomes, strict=True)
            if outcome is Published.CONFIRMED
        ]
        self._metrics.published(sendable, outcomes)
        self._mark(confirmed, now)
        self.missing_queues.note(map(Sent.of, envelopes, sendable), outcomes, now=now)
        result = _result_of(sendable, outcomes)
        if result.unknown and (was_there or self._broker.is_reachable()):
            # In an outage nothing is sent, and the broker's side says so.
            _say_unknown(result.unknown)
        if result.refused:
            _say_refused(result)
        self._note_answer(result, now)
        return result

    def _mark(self, confirmed: Sequence[Execution], now: datetime) -> None:
        theirs = [each for each in confirmed if each.queue in self._foreign_queues]
        ours = [each for each in confirmed if each.queue not in self._foreign_queues]
        if ours:
            self._claims.mark_published(ours, now=now)
        if theirs:
            self._claims.hand_over(theirs, now=now)

    def _note_answer(self, result: PublishResult, now: datetime) -> None:
        if result.is_answered:
            self._is_back(now)
        elif result.unknown:
            self._silent_since = self._silent_since or now

    def _is_back(self, now: datetime) -> None:
        since = self._silent_since
        if since is not None and now - since >= DOUBTED_AFTER:
            text = f"The broker answered nothing since {say_time(since)}: what waits is sent again"
            say(log, logging.WARNING, "broker.doubted", text)
            self._doubt = _Doubted(since=since)
        self._silent_since, self._away = None, False


def _result_of(executions: Sequence[Execution], outcomes: Sequence[Published]) -> PublishResult:
    queues = dict[Published, set[str]]()
    for execution, outcome in zip(executions, outcomes, strict=True):
        queues.setdefault(outcome, set()).add(execution.queue)
    count = Counter(outcomes)
    none = frozenset[str]()
    unreachable = queues.get(Published.RETURNED, none) | queues.get(Published.REFUSED, none)
    return PublishResult(
        published=count[Published.CONFIRMED],
        returned=count[Published.RETURNED],
        refused=count[Published.REFUSED],
        unknown=count[Published.UNKNOWN],
        unreachable=frozenset(unreachable - queues.get(Published.CONFIRMED, none)),
    )


def _say_unknown(messages: int) -> None:
    whether = f"whether {counted(messages, 'message')} arrived"
    text = f"It is unknown {whether}; what is unknown is sent again"
    say(log, logging.WARNING, "publish.unknown", text)


def _say_refused(result: PublishResult) -> None:
    where = (
        f": look at {listed(sorted(result.unreachable), most=MOST_NAMED)}"
        if result.unreachable
        else ""
    )
    text = (
        f"The broker did not take {counted(result.refused, 'message')}; they are sent again. "
        f"A queue is full, or cannot take them now{where}"
    )
    say(log, logging.WARNING, "publish.refused", text)

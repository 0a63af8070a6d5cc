"""From an execution to its message: publish it, mark it, and say what became of it."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Self

import attrs

from cronhare.application.starting import UP_WITH_ITS_TASK, serve_missing, start_standalone
from cronhare.domain.execution import DOUBTED_AFTER, Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.transitions import end
from cronhare.domain.messages import (
    LARGEST_ID,
    TRACE_HEADER,
    AttemptRef,
    Signer,
    failed_body,
    headers_of,
    kept_headers,
    quarantine_body,
    task_body,
)
from cronhare.domain.retries.outcome import PoisonPill
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.texts.moments import say_time
from cronhare.domain.texts.words import counted, listed
from cronhare.domain.topology import (
    LONGEST_LANE_DELAY,
    ToFailed,
    ToQuarantine,
    ToQueue,
    first_queue,
    is_ours,
)
from cronhare.ports.attempts import Finish, Superseded
from cronhare.ports.broker import BrokerPort, Envelope, Message, Published
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.system import NOT_TRACED, SILENT, MetricsPort, SpanKind, TracingPort

from .logs import say
from .outages import LogLimiter

log = logging.getLogger(__name__)

#: So many schedules and executions are named in a line.
MOST_NAMED: Final = 5


def envelope(
    execution: Execution, *, now: datetime, signer: Signer, trace: str | None = None
) -> Envelope:
    """Make the message of the coming attempt, signed and delayed; *trace* is its parent span."""
    body = task_body(execution)
    headers = signer.sign(body, headers_of(execution))
    if trace is not None:
        headers[TRACE_HEADER] = trace
    return Envelope(
        Message(body=body, headers=headers, id=execution.message_id),
        ToQueue(execution.queue, wait(execution, now=now)),
    )


def is_carried(execution: Execution, *, now: datetime) -> bool:
    """Tell whether the coming attempt is a message: none of the system's, nor beyond the lanes."""
    return not execution.task.is_system and wait(execution, now=now) <= LONGEST_LANE_DELAY


def wait(execution: Execution, *, now: datetime) -> timedelta:
    due = execution.next_attempt_at
    return timedelta(0) if due is None else max(due - now, timedelta(0))


def follow_up(
    finish: Finish,
    recorded: State | Superseded,
    *,
    now: datetime,
    signer: Signer,
    headers: Mapping[str, object] | None = None,
    trace: str | None = None,
) -> Envelope | None:
    """Make the message that follows the end of an attempt, if any does.

    *recorded* is what the ledger answered; *headers* are those of the message that began the
    attempt. A failed message keeps as many of the *headers* as fit; a retry keeps none (ADR 6). A
    retry that waits for longer than the lanes reach has no message: the reconciler finds it when
    it is due. *trace* is as in `envelope`.
    """
    execution, verdict = finish.execution, finish.verdict
    match recorded:
        case State.RETRYING:
            coming = end(execution, verdict, finish.ran.outcome.ending, now=now)
            if is_carried(coming, now=now):
                return envelope(coming, now=now, signer=signer, trace=trace)
        case State.FAILED:
            body = failed_body(execution, reason=verdict.reason, at=now)
            return _last(execution, body, ToFailed(), signer, headers)
        case State.QUARANTINED:
            pill = PoisonPill.of(verdict.crashes) if isinstance(verdict, Quarantine) else None
            body = quarantine_body(execution, pill, at=now)
            return _last(execution, body, ToQuarantine(), signer, headers)
    return None


def is_last(following: Envelope) -> bool:
    return isinstance(following.to, ToFailed | ToQuarantine)


def follow_up_late(row: Archived, signer: Signer) -> "Sent":
    """Make the message of an end again, without the headers of that which began the attempt."""
    execution = _as_archived(row)
    if row.state is State.QUARANTINED:
        body = quarantine_body(execution, row.pill, at=row.failed_at)
        return execution, _last(execution, body, ToQuarantine(), signer)
    body = failed_body(execution, reason=row.failed_reason, at=row.failed_at)
    return execution, _last(execution, body, ToFailed(), signer)


def _last(
    execution: Execution,
    body: bytes,
    to: ToFailed | ToQuarantine,
    signer: Signer,
    headers: Mapping[str, object] | None = None,
) -> Envelope:
    """Make the last message. It has the signature of the task message that it is about."""
    signed = signer.sign(task_body(execution), headers_of(execution))
    all_headers = {**kept_headers(headers or {}), **signed}
    return Envelope(Message(body=body, headers=all_headers, id=f"{execution.message_id}:end"), to)


def _as_archived(row: Archived) -> Execution:
    """Describe an execution as its last attempt had it: its own row may be gone."""
    return Execution(
        id=row.execution_id,
        scheduler_id=row.scheduler_id,
        schedule_name=row.schedule_name,
        key=row.execution_key,
        state=row.state,
        task=TaskRef(row.task_type, row.task_id),
        params=row.params,
        queue=row.queue,
        attempt=row.attempts,
        deaths=row.retry_count,
        version=0,
        due_at=row.failed_at,
        executed_at=row.failed_at,
        container_id="",
        last_error=row.failed_reason,
    )


#: A message, and the execution whose present attempt it is about.
Sent = tuple[Execution, Envelope]


@attrs.define(kw_only=True, eq=False)
class MissingQueues:
    """Logs queues that do not exist; *in_memory* is the broker that only `cronhare up` serves.

    Their messages are sent again every few seconds, so that they are there soon after the queue.
    """

    _in_memory: bool
    _limiter: LogLimiter = attrs.field(init=False, factory=LogLimiter)

    def note(self, sent: Iterable[Sent], outcomes: Sequence[Published], *, now: datetime) -> None:
        if not self._limiter and Published.RETURNED not in outcomes:
            return
        returned = dict[str, list[Execution]]()
        for (execution, message), outcome in zip(sent, outcomes, strict=True):
            queue = first_queue(message.to)
            if outcome is Published.RETURNED:
                returned.setdefault(queue, []).append(execution)
            elif outcome is Published.CONFIRMED:
                self._limiter.reset(queue)
        for queue, executions in returned.items():
            self._log(queue, executions, now)

    def _log(self, queue: str, returned: Sequence[Execution], now: datetime) -> None:
        if not self._limiter.is_due(queue, now.timestamp()):
            return
        ids = listed([str(each.id) for each in returned], most=MOST_NAMED)
        if is_ours(queue):
            advice = (
                "it is one of our own, or what leads to it is, and somebody deleted it. It is "
                f"declared anew. The messages are of executions {ids}"
            )
        else:
            schedules = sorted({each.schedule_name for each in returned})
            who_serves = serve_missing(queue, in_memory=self._in_memory)
            if is_standalone(queue) and not self._in_memory:
                start = start_standalone(schedules[:1], None)
                who_serves = f"each of its schedules needs a worker: {start}; or {UP_WITH_ITS_TASK}"
            advice = (
                f"{who_serves}. Or correct `queue` of {listed(schedules, most=MOST_NAMED)}, and "
                f"let go of what waits: cronhare executions cancel ID, of {ids}, or --schedule NAME"
            )
        text = (
            f"The broker returned {counted(len(returned), 'message')}: there is no queue {queue}. "
            f"What came back is sent again until there is: {advice}"
        )
        say(log, logging.ERROR, "publish.returned", text)


@attrs.frozen(kw_only=True)
class PublishResult:
    """How many messages of a batch are in a queue, were refused, or are in doubt.

    If *is_answered*, the broker is there, even if queues are full or missing. *unreachable* are the
    queues that took no message, of those about which it answered.
    """

    published: int = 0
    refused: int = 0
    unknown: int = 0
    is_answered: bool = False
    unreachable: frozenset[str] = frozenset()

    @classmethod
    def of(cls, queues: Iterable[str], outcomes: Sequence[Published]) -> Self:
        count, reached = Counter(outcomes), dict[str, bool]()
        for queue, outcome in zip(queues, outcomes, strict=True):
            if outcome is not Published.UNKNOWN:
                reached[queue] = reached.get(queue, False) or outcome is Published.CONFIRMED
        return cls(
            published=count[Published.CONFIRMED],
            refused=count[Published.REFUSED],
            unknown=count[Published.UNKNOWN],
            is_answered=count[Published.UNKNOWN] < len(outcomes),
            unreachable=frozenset(queue for queue, is_reached in reached.items() if not is_reached),
        )


@attrs.define(kw_only=True, eq=False)
class ExecutionPublisher:
    """Publishes attempts, and what follows ends. What is in doubt is left to the reconciler.

    *run_system_task* runs the system's own executions, which no worker is asked to run. *in_memory*
    says where the broker is. An execution that arrives in one of *foreign_queues* is marked as
    handed over.
    """

    _broker: BrokerPort
    _claims: ClaimStorePort
    _run_system_task: Callable[[Execution, datetime], None]
    _signer: Signer
    _in_memory: bool
    _foreign_queues: Collection[str] = ()
    _metrics: MetricsPort = SILENT
    _tracing: TracingPort = NOT_TRACED
    _missing_queues: MissingQueues = attrs.field(init=False)
    _silent_since: datetime | None = attrs.field(init=False, default=None)
    _away: bool = attrs.field(init=False, default=False)
    #: What was sent before that time may be lost; rows up to that id are marked.
    _doubt: tuple[datetime, int] | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._missing_queues = MissingQueues(in_memory=self._in_memory)

    def publish(self, executions: Sequence[Execution], *, now: datetime) -> PublishResult:
        """Publish the coming attempts of *executions*, but for those beyond the lanes' reach."""
        result = self._publish([each for each in executions if is_carried(each, now=now)], now)
        for execution in executions:  # last: it may take long, or fail
            if execution.task.is_system:
                self._run_system_task(execution, now)
        return result

    def publish_ends(self, ended: Sequence[tuple[Finish, State]], *, now: datetime) -> None:
        following = list[Sent]()
        for finish, state in ended:
            message = follow_up(finish, state, now=now, signer=self._signer)
            if message is not None:
                following.append((finish.execution, message))
        self._publish_following(following, now)

    def publish_late_ends(self, found: Sequence[Archived], *, now: datetime) -> PublishResult:
        following = [follow_up_late(ended, self._signer) for ended in found]
        return self._publish_following(following, now)

    def can_publish(self) -> bool:
        return self._broker.is_reachable()

    def check_broker(self, now: datetime) -> None:
        """Notice an outage of the broker, which may have lost messages, while none was sent."""
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
        since, marked = doubt
        after = self._claims.doubt(since=since, now=now, after=marked, limit=limit)
        if self._doubt is doubt:  # or the broker came back once more
            self._doubt = None if after is None else (since, after)
        return self._doubt is not None

    def _publish(self, sendable: Sequence[Execution], now: datetime) -> PublishResult:
        if not sendable:
            return PublishResult()
        was_there = self._broker.is_reachable()
        with self._tracing.span("publish", kind=SpanKind.PRODUCER, messages=len(sendable)) as span:
            trace = self._tracing.current()
            envelopes = [
                envelope(execution, now=now, signer=self._signer, trace=trace)
                for execution in sendable
            ]
            outcomes = self._broker.publish(envelopes)
            if unsent := sum(outcome is not Published.CONFIRMED for outcome in outcomes):
                span.fail(f"{unsent} messages are not known to have arrived")
        self._metrics.published(sendable, outcomes)
        self._mark(sendable, outcomes, now)
        self._missing_queues.note(zip(sendable, envelopes, strict=True), outcomes, now=now)
        result = PublishResult.of((execution.queue for execution in sendable), outcomes)
        if result.unknown and (was_there or self._broker.is_reachable()):
            # In an outage nothing is sent, and the broker's side says so.
            text = f"It is unknown whether {counted(result.unknown, 'message')} arrived"
            say(log, logging.WARNING, "publish.unknown", f"{text}; what is unknown is sent again")
        if result.refused:
            where = listed(sorted(result.unreachable), most=MOST_NAMED)
            text = (
                f"The broker did not take {counted(result.refused, 'message')}; they are sent "
                "again. A queue is full, or cannot take them now"
            )
            say(log, logging.WARNING, "publish.refused", f"{text}{where and f': look at {where}'}")
        if result.is_answered:
            self._is_back(now)
        elif result.unknown:
            self._silent_since = self._silent_since or now
        return result

    def _mark(
        self, sent: Sequence[Execution], outcomes: Sequence[Published], now: datetime
    ) -> None:
        ours, theirs = list[Execution](), list[Execution]()
        for execution, outcome in zip(sent, outcomes, strict=True):
            if outcome is Published.CONFIRMED:
                (theirs if execution.queue in self._foreign_queues else ours).append(execution)
        if ours:
            self._claims.mark_published(ours, now=now)
        if theirs:
            self._claims.hand_over(theirs, now=now)

    def _publish_following(self, following: Sequence[Sent], now: datetime) -> PublishResult:
        if not following:
            return PublishResult()
        envelopes = [message for _, message in following]
        outcomes = self._broker.publish(envelopes)
        self._missing_queues.note(following, outcomes, now=now)
        last = [
            AttemptRef(execution_id=one.id, attempt=one.attempt)
            for (one, message), outcome in zip(following, outcomes, strict=True)
            if outcome is Published.CONFIRMED and is_last(message)
        ]
        if last:
            self._claims.mark_ends_published(last)
        return PublishResult.of((first_queue(each.to) for each in envelopes), outcomes)

    def _is_back(self, now: datetime) -> None:
        since = self._silent_since
        if since is not None and now - since >= DOUBTED_AFTER:
            text = f"The broker answered nothing since {say_time(since)}: what waits is sent again"
            say(log, logging.WARNING, "broker.doubted", text)
            self._doubt = since, -LARGEST_ID
        self._silent_since, self._away = None, False

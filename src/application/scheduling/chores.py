"""Work of a scheduler beside the claiming: the daily cleanup, replays, a probe of the lanes."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.application.doctor.finding import Seen
from cronhare.application.doctor.queues import LANES
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.orders import FULL_FOR, STEP, BackfillOrder, Replay, ReplayState
from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.domain.retries.policy import RetryPolicy, Waits
from cronhare.domain.retries.retry import Complete, RetryAfter
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import (
    AttemptStorePort,
    Busy,
    Deferred,
    Finish,
    Refused,
    StartRequest,
)
from cronhare.ports.claims import ReplayStorePort
from cronhare.ports.inspection import BrokerInspectionPort, InMemory, Severity, Unreachable
from cronhare.ports.records import RecordsPort, Retention
from cronhare.ports.runner import AttemptResult, Captured
from cronhare.ports.system import ClockPort

from ..logs import say
from ..publish import ExecutionPublisher

log = logging.getLogger(__name__)

#: Longer than a cleanup takes: it is not renewed. Who dies of it has it repeated after that.
LEASE = timedelta(hours=6)
TRY_AGAIN = timedelta(minutes=10)


@attrs.define(kw_only=True, eq=False)
class Housekeeper:
    """Runs the system's own executions inside the scheduler that claimed them."""

    _attempts: AttemptStorePort
    _records: RecordsPort
    _node: str
    _clock: ClockPort
    _retention: Retention = attrs.field(factory=Retention)

    def run(self, execution: Execution, now: datetime) -> None:
        """Start, clean up, finish, as a worker would. Without an end it counts as lost."""
        request = StartRequest(execution_id=execution.id, attempt=execution.attempt, nacks=None)
        [started] = self._attempts.start([request], now=now, node=self._node, lease=LEASE)
        if isinstance(started, Refused | Deferred | Busy):
            return
        began = self._clock.monotonic()
        finish = self._clean_up(started, now)
        ended = now + timedelta(seconds=self._clock.monotonic() - began)
        # If its row is locked just now, it counts as lost, and is repeated.
        self._attempts.finish([finish], now=ended, node=self._node)

    def _clean_up(self, execution: Execution, now: datetime) -> Finish:
        try:
            deleted = self._records.clean_up(now=now, retention=self._retention)
        except LedgerUnavailable as error:
            outcome = Outcome(ending=Ending.FAILED, error=TaskError(message=str(error)))
            again = RetryAfter(TRY_AGAIN, f"the cleanup did not end: {error}")
            return Finish(execution=execution, ran=AttemptResult(outcome=outcome), verdict=again)
        days = self._retention.others.days
        text = f"[CLEANUP] ✓ Deleted {deleted} execution records older than {days} days"
        say(log, logging.INFO, "cleanup", text)
        said = Captured(head=text + "\n", bytes=len(text.encode()) + 1)
        ran = AttemptResult(outcome=Outcome(ending=Ending.SUCCEEDED), stdout=said)
        return Finish(execution=execution, ran=ran, verdict=Complete())


class BackgroundExecutor:
    """Runs the system's own executions in a thread: a busy 3:00 waits for no cleanup."""

    def __init__(self, run: Callable[[Execution, datetime], None], *, executor: Executor) -> None:
        """*run* ends an execution; the reconciler repeats what it could not end."""
        self._run = run
        self._executor = executor

    def begin(self, execution: Execution, now: datetime) -> None:
        self._executor.submit(self._run_to_the_end, execution, now)

    def _run_to_the_end(self, execution: Execution, now: datetime) -> None:
        try:
            self._run(execution, now)
        except LedgerUnavailable as error:
            text = f"{execution.schedule_name} was not done, and will be tried again: {error}"
            say(log, logging.ERROR, "server.unavailable", text)
        except Exception:
            text = f"{execution.schedule_name} met a fault of ours, and will be tried again"
            log.exception("%s", text, extra={"action": "loop.fault"})


def probe_lanes(broker: BrokerInspectionPort) -> None:
    """Send a probe through each lane, and log those that are broken: retries would come late."""
    reports = broker.probe()
    if isinstance(reports, InMemory | Unreachable):
        return
    for finding in LANES.judge(Seen(lanes=reports)):
        if finding.severity is Severity.ERROR:
            text = f"{finding.what}. What mends it, tells `cronhare doctor --probe`"
            say(log, logging.ERROR, "lanes.broken", text)
        else:
            say(log, logging.DEBUG, "lanes", finding.what)


#: Replays that are taken on in one round.
MOST_STEPS: Final = 100

#: Seconds until the next look while no replay goes on: so late one begins that is new.
IDLE: Final = 5.0
_SOON, _LATEST = FULL_FOR.total_seconds(), STEP.total_seconds()

#: A rest is so many times as long as the round before, up to a step: among 100,000
#: items of many keys a look takes most of a second.
_SHARE: Final = 4


@attrs.define(kw_only=True, eq=False)
class Replayer:
    """Takes on whatever replay is due. *policy* holds for schedules without one.

    What begins is claimed in the ledger before it is published: if this process dies in between,
    the reconciler publishes it. Replays that this process has taken on are known, and looked at
    when they are due; the longer none gets on, the later.
    """

    _replays: ReplayStorePort
    _publisher: ExecutionPublisher
    _policy: RetryPolicy
    _node: str
    _random_fraction: Callable[[], float]
    _now: Callable[[], datetime]
    _known: dict[int, Replay] = attrs.field(init=False, factory=dict[int, Replay])
    _waits: Waits[float] = attrs.field(init=False, factory=lambda: Waits(_SOON, _LATEST))

    def round(self) -> float:
        """Take each due replay one step on; answers how many seconds to rest."""
        steps, began = 0, self._now()
        now = began
        while steps < MOST_STEPS and self.step(now):
            steps, now = steps + 1, self._now()
        # One that is known and was due nonetheless is taken on by another scheduler.
        self._known = {id_: one for id_, one in self._known.items() if one.next_at > now}
        if not self._known:
            return _LATEST if steps else IDLE
        soonest = min(one.next_at for one in self._known.values())
        share = min(_SHARE * (now - began).total_seconds(), _LATEST)
        least = self._waits.next() if steps else 0.0
        return min(max((soonest - now).total_seconds(), least, share), IDLE)

    def step(self, now: datetime) -> bool:
        advance = self._replays.advance(
            now=now,
            node=self._node,
            policy=self._policy,
            random_fraction=self._random_fraction,
        )
        if advance is None:
            return False
        replay = advance.replay
        before = self._known.pop(replay.id, None)
        if before is None or before.progress != replay.progress:
            self._waits.reset()
        if advance.executions:
            self._publisher.publish(advance.executions, now=now)
        if replay.state is ReplayState.ACTIVE:
            self._known[replay.id] = replay
        else:
            _say_end(replay)
        return True


def _say_end(replay: Replay) -> None:
    stopped = replay.state is ReplayState.STOPPED
    level = logging.WARNING if stopped else logging.INFO
    how = "has stopped" if stopped else "is done"
    what = "Backfill" if isinstance(replay.order, BackfillOrder) else "Replay"
    text = f"{what} {replay.id} {how}: {replay.reason}"
    say(log, level, "replay.stopped" if stopped else "replay.done", text)

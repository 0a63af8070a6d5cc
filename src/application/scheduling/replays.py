"""The loop that takes replays of many and backfills on, step by step; every scheduler has one."""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.lifecycle.orders import FULL_FOR, STEP, BackfillOrder, Replay, ReplayState
from cronhare.domain.retries.policy import RetryPolicy, Waits
from cronhare.ports.claims import ReplayStorePort

from ..logs import say
from ..publish import ExecutionPublisher

log = logging.getLogger(__name__)

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

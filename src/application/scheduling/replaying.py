"""The loop that takes replays of many and backfills on, step by step; every scheduler has one."""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.replay_pace import Replay, ReplayState
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.ports.claims import ReplayStorePort

from ..logs import say
from ..publishing.execution_publisher import ExecutionPublisher
from .replay_looks import ReplayLooks

log = logging.getLogger(__name__)

#: Replays that are taken on in one round.
MOST_STEPS: Final = 100


@attrs.define(kw_only=True, eq=False)
class Replayer:
    """Takes on whatever replay is due. *policy* holds for schedules without one.

    What begins is claimed in the ledger before it is published: if this process dies in between,
    the reconciler publishes it.
    """

    _replays: ReplayStorePort
    _publisher: ExecutionPublisher
    _policy: RetryPolicy
    _node: str
    _random_fraction: Callable[[], float]
    _now: Callable[[], datetime]
    _looks: ReplayLooks = attrs.field(init=False, factory=ReplayLooks)

    def round(self) -> float:
        """Take each due replay one step on; answers how many seconds to rest."""
        steps, began = 0, self._now()
        now = began
        while steps < MOST_STEPS and self.step(now):
            steps, now = steps + 1, self._now()
        return self._looks.rest(began=began, now=now)

    def step(self, now: datetime) -> bool:
        """Take one replay a step on; False if none is due."""
        advance = self._replays.advance(
            now=now,
            node=self._node,
            policy=self._policy,
            random_fraction=self._random_fraction,
        )
        if advance is None:
            return False
        self._looks.note(advance.replay)
        if advance.executions:
            self._publisher.publish(advance.executions, now=now)
        if advance.replay.state is not ReplayState.ACTIVE:
            _say_end(advance.replay)
        return True


def _say_end(replay: Replay) -> None:
    stopped = replay.state is ReplayState.STOPPED
    level = logging.WARNING if stopped else logging.INFO
    how = "has stopped" if stopped else "is done"
    what = "Backfill" if isinstance(replay.order, BackfillOrder) else "Replay"
    text = f"{what} {replay.id} {how}: {replay.reason}"
    say(log, level, "replay.stopped" if stopped else "replay.done", text)

"""Replays of many failures, as people look at them."""

from datetime import datetime
from typing import Any, Self

import attrs

from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_outlook import time_left
from cronhare.domain.lifecycle.replay_pace import Replay, ReplayState


@attrs.frozen(kw_only=True)
class ReplayView:
    """A replay; see `Replay`, `ReplayOrder` and `ReplayProgress`. *kind* is replay or backfill.

    *which* has what was asked for of the failures; of a backfill `schedule`, `since` and `until`.
    *seconds_left* is by its pace so far.
    """

    id: int
    kind: str | None
    state: str
    reason: str | None
    waiting: int
    released: int
    failing: int
    succeeded: int
    failed: int
    refused: int
    left_out: int
    is_collected: bool
    seconds_left: int | None
    which: dict[str, Any] | None
    rate_per_second: float | None
    jitter: float | None
    key: str | None
    at_once: int | None
    canary: int | None
    stop_at: float | None
    attempts: int | None
    author: str | None
    created_at: datetime
    next_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, replay: Replay, *, now: datetime) -> Self:
        """Show a replay as it stands now."""
        order, goes_on = replay.order, replay.state is ReplayState.ACTIVE
        return cls(
            id=replay.id,
            kind=_kind(order),
            state=replay.state.value,
            reason=replay.reason,
            **attrs.asdict(replay.progress),
            seconds_left=_seconds_left(replay, now) if goes_on else None,
            **_rules(order),
            created_at=replay.created_at,
            next_at=replay.next_at if goes_on else None,
            ended_at=replay.ended_at,
        )


def _seconds_left(replay: Replay, now: datetime) -> int | None:
    left = time_left(replay.order, replay.progress, elapsed=now - replay.created_at)
    return None if left is None else round(left.total_seconds())


def _kind(order: ReplayOrder | BackfillOrder) -> str:
    return order.kind if isinstance(order, BackfillOrder) else "replay"


def _rules(order: ReplayOrder | BackfillOrder) -> dict[str, Any]:
    names = ("jitter", "key", "at_once", "canary", "stop_at", "attempts", "author")
    rules = {name: getattr(order, name) for name in names}
    if order.key is None:
        rules["at_once"] = None
    if isinstance(order, BackfillOrder):
        which = {name: getattr(order, name) for name in ("schedule", "since", "until")}
    else:
        asked = order.which.conditions.items()
        which = {name: value for name, value in asked if name != "unresolved"}
    return {**rules, "which": which, "rate_per_second": order.rate}

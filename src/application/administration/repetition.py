"""Requests that are asked again: they are answered what they began, and nothing else."""

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import Replay
from cronhare.domain.schedules.params import same_params


class RequestReused(ValueError):
    """What names a request named another one before; nothing was changed."""


def refuse_other_params(begun: Execution, params: str | None) -> None:
    """Refuse a run that was begun with other params than these, if any are asked for.

    Raises:
        RequestReused: it was.
    """
    if params is not None and not same_params(begun.params, params):
        raise RequestReused(f"it began execution {begun.id}, with other params")


def refuse_another(begun: Replay, order: ReplayOrder | BackfillOrder) -> None:
    """Refuse a replay that was begun by another order than this one.

    Raises:
        RequestReused: it was. A resume has changed when it stops, and that counts for nothing.
    """
    if _as_resumed(begun.order) != _as_resumed(order):
        kind = "backfill" if isinstance(begun.order, BackfillOrder) else "replay"
        raise RequestReused(f"it began {kind} {begun.id}, which is another one")


def _as_resumed(order: ReplayOrder | BackfillOrder) -> ReplayOrder | BackfillOrder:
    return attrs.evolve(order, canary=0, stop_at=None)

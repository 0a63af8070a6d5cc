"""What would run a past instant that did not run by itself: a backfill, unless the reason holds."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.replay_pace import Replay, ReplayState
from cronhare.domain.schedules.schedule import SYSTEM_PREFIX

#: How reasons begin that hold for a backfill as well; see `domain/lifecycle/backfill.py`.
_OF_THE_DAY: Final = ("calendar", "in no window", "blackout")
_OF_THE_SCHEDULE: Final = ("the schedule starts", "the schedule ended", "it cannot be planned")


def on_request(reasons: Sequence[str], name: str, *, backfill: int | None = None) -> Iterator[str]:
    """Say what would run a past instant of the schedule *name* that did not run, and why not.

    *backfill* is the number of one that is under way, and has the instant.
    """
    if any(reason.startswith(_OF_THE_DAY) for reason in reasons):
        yield (
            "A backfill leaves it out as well, as long as that holds; "
            f"`cronhare run {name}` runs it now, whatever day it is."
        )
        return
    if name.startswith(SYSTEM_PREFIX) or any(each.startswith(_OF_THE_SCHEDULE) for each in reasons):
        return
    if backfill is not None:
        yield f"Backfill {backfill} is under way and has it: `cronhare replays show {backfill}`."
    else:
        yield f"`cronhare schedules backfill {name} --from … --until …` runs past instants."


def backfill_with(replays: Sequence[Replay], scheduler_id: int, instant: datetime) -> int | None:
    """Find a backfill that is under way and has that instant of a schedule."""
    for replay in replays:
        order = replay.order
        if (
            replay.state is ReplayState.ACTIVE
            and isinstance(order, BackfillOrder)
            and order.scheduler_id == scheduler_id
            and order.since <= instant < order.until
        ):
            return replay.id
    return None

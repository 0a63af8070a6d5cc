"""How long a replay or backfill is likely to go on."""

from datetime import timedelta

from .replay_order import Pacing
from .replay_pace import FEWEST_JUDGED, ReplayProgress


def time_left(order: Pacing, progress: ReplayProgress, *, elapsed: timedelta) -> timedelta | None:
    """Estimate by the pace so far, *elapsed* since the order, and by its rate, which is a bound.

    None while there is too little to tell it by.
    """
    ended = progress.succeeded + progress.failed
    if not progress.is_collected or ended < FEWEST_JUDGED:
        return None
    by_pace = elapsed * ((progress.waiting + progress.released) / ended)
    return max(by_pace, timedelta(seconds=progress.waiting / order.rate))

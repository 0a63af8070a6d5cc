"""What would run a past instant that did not run by itself: a backfill, unless it leaves it out."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from cronhare.domain.lifecycle.backfill import BackfillOrder, left_out, why_not_filled
from cronhare.domain.lifecycle.replay_pace import Replay, ReplayState
from cronhare.domain.schedules.calendars import FoundCalendar
from cronhare.domain.schedules.circumstances import Circumstances
from cronhare.ports.schedules import StoredSchedule

from .lookup import understood


def on_request(
    stored: StoredSchedule,
    instant: datetime,
    *,
    said: str,
    calendars: Mapping[str, FoundCalendar],
    replays: Sequence[Replay],
) -> Iterator[str]:
    """Say what would run a past instant of a schedule that did not run, or that nothing would.

    *said* is why it did not run, as people are told already.
    """
    if (schedule := understood(stored)) is None:
        return
    circumstances = Circumstances(calendars=calendars, problem=stored.problem)
    if why := why_not_filled(schedule, circumstances):
        if why not in said:
            yield f"No backfill runs it: {why}."
        return
    is_due, why_not = left_out(schedule, circumstances, instant)
    if why_not is not None:
        yield (
            f"A backfill leaves it out as well, as long as that holds ({why_not}); "
            f"`cronhare run {stored.name}` runs it now, whatever day it is."
        )
    elif is_due:
        yield _by_a_backfill(stored.name, _backfill_with(replays, stored.id, instant))


def _by_a_backfill(name: str, known: Replay | None) -> str:
    if known is None:
        return f"`cronhare schedules backfill {name} --since … --until …` runs past instants."
    if known.state is ReplayState.STOPPED:
        return f"Backfill {known.id} has it and is stopped: `cronhare replays resume {known.id}`."
    return f"Backfill {known.id} is under way and has it: `cronhare replays show {known.id}`."


def _backfill_with(
    replays: Sequence[Replay], scheduler_id: int, instant: datetime
) -> Replay | None:
    """Find a backfill that has that instant of a schedule: under way, or stopped."""
    with_it = [
        replay
        for replay in replays
        if isinstance(order := replay.order, BackfillOrder)
        and order.scheduler_id == scheduler_id
        and order.since <= instant < order.until
    ]
    for state in (ReplayState.ACTIVE, ReplayState.STOPPED):
        for replay in with_it:
            if replay.state is state:
                return replay
    return None

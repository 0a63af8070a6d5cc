"""What `explain` says of schedules without times: who begins them, and why nobody did."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from cronhare.domain.diagnosis.starting import keeps_alive
from cronhare.domain.execution import Execution
from cronhare.domain.nodes import NodeReport
from cronhare.domain.schedules.boot import LONGEST_AGO
from cronhare.domain.schedules.by_itself import Disabled, hindrance
from cronhare.domain.schedules.keys import Trigger, trigger_of
from cronhare.domain.schedules.pause import Pause
from cronhare.domain.texts.moments import say_duration, say_moment
from cronhare.domain.texts.words import listed
from cronhare.ports.schedules import StoredSchedule

_CAME_OF = {
    Trigger.HAND: "Somebody asked for it",
    Trigger.START: "It began with a start of `cronhare up`",
    Trigger.BOOT: "It is the run of a boot of a host",
    Trigger.ALIVE: "It was begun to stay alive",
    Trigger.TIME: "It was due then, before the schedule lost its times",
    Trigger.BACKFILL: "A backfill asked for it",
}


def who_begins_it(
    stored: StoredSchedule, nodes: Sequence[NodeReport], *, now: datetime
) -> Iterator[str]:
    """Say who would begin a schedule without times, and whether anything keeps them from it."""
    if stored.draft is not None and stored.draft.stay_alive:
        yield f"It stays alive. {keeps_alive(stored.name)} begins it whenever it has ended."
        yield f"Its runs go through {stored.draft.runs_on}, which no other worker serves."
        yield from _what_hinders(stored, now)
        return
    yield f"It has no times of its own: `cronhare run {stored.name}` begins it."
    if stored.source is None:
        return
    yield (
        f"If its jobs file, {stored.source}, says on_start, so does each start of `cronhare up` "
        f"with it, and no worker; on_boot: the first of its workers, or `cronhare up`, within "
        f"{say_duration(LONGEST_AGO)} of a boot. The ledger does not know which it says."
    )
    yield from _what_hinders(stored, now)
    at_work = [node.name for node in nodes if node.works and not node.is_silent(now)]
    if not at_work:
        yield "No worker and no `cronhare up` reports itself now: none would begin it at a boot."
    else:
        yield f"At work now: {listed(at_work)}. Each looks once, when it begins."
    yield "What began nothing says why in its log: `start.refused`, `boot.refused`, `boot.passed`."


def _what_hinders(stored: StoredSchedule, now: datetime) -> Iterator[str]:
    match stored.draft and hindrance(stored.draft, stored.pause, now=now):
        case Disabled():
            yield f"But it is disabled: `cronhare schedules enable {stored.name}` switches it on."
        case Pause() as pause:
            yield f"But it is {pause}: `cronhare schedules resume {stored.name}` ends that."


def came_of(execution: Execution) -> str:
    """Say what a run came of: the beginning of a sentence."""
    return _CAME_OF[trigger_of(execution.key)]


def what_it_came_of(execution: Execution) -> str:
    """Say what the last run of a schedule without times came of."""
    when = say_moment(execution.due_at)
    return f"{came_of(execution)}, at {when}; it is the last run of this schedule."

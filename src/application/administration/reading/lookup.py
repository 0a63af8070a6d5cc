"""Finding a schedule by its name, an execution by its number; what a row says, its calendars."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cronhare.domain.execution import Execution
from cronhare.domain.reading import Fault
from cronhare.domain.schedules.conditions import BrokenCalendar, FoundCalendar, compiled
from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid, compile_schedule
from cronhare.domain.schedules.schedule import Schedule
from cronhare.domain.texts.words import hint, listed
from cronhare.ports.records import RecordsPort
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

#: Names among which those that come close are looked for: it takes a tenth of a second.
LOOKED_AT: Final = 2_000


class NotFound(LookupError):
    """What was asked for by name or number does not exist, and nothing is left of it.

    Nothing was changed. Of a name it says which others come close.
    """


def find_schedule(schedules: ScheduleStorePort, name: str) -> StoredSchedule:
    """Find a schedule by its name.

    Raises:
        NotFound: with the names that come close.
    """
    [found] = find_schedules(schedules, [name])
    return found


def find_schedules(schedules: ScheduleStorePort, names: Sequence[str]) -> Sequence[StoredSchedule]:
    """Find schedules by their names, each once and in that order.

    Raises:
        NotFound: with the names that come close to the first that does not exist.
    """
    wanted = list(dict.fromkeys(names))
    found = {schedule.name: schedule for schedule in schedules.schedules(wanted)}
    for name in wanted:
        if name not in found:
            raise not_found("schedule", name, schedules.near(name, limit=LOOKED_AT))
    return [found[name] for name in wanted]


def not_found(what: str, name: str, known: Iterable[str]) -> NotFound:
    """Say that there is nothing of that name, and which of the *known* names come close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there is {listed(names) or 'none'}"
    return NotFound(f"there is no {what} {name!r}; {hint}")


def find_execution(records: RecordsPort, execution_id: int) -> Execution:
    """Find an execution by its number.

    Raises:
        NotFound: there is none.
    """
    execution = records.execution(execution_id)
    if execution is None:
        raise NotFound(f"there is no execution {execution_id}")
    return execution


def understood(stored: StoredSchedule) -> Schedule | None:
    """Give the schedule that a row describes; None if it is broken."""
    if stored.draft is None:
        return None
    return compile_schedule(
        stored.draft, id=stored.id, changed_at=stored.updated_at, source=stored.source
    )


def zone_of(stored: StoredSchedule) -> str:
    """Name the zone in which a schedule is due; UTC if its row is broken."""
    return "UTC" if stored.draft is None else stored.draft.timezone


def find_calendars(
    schedules: ScheduleStorePort, stored: StoredSchedule
) -> Mapping[str, FoundCalendar]:
    if stored.draft is None or stored.draft.conditions is None:
        return {}
    names = stored.draft.conditions.calendars
    found = schedules.calendars(names) if names else ()
    return {
        each.name: compiled(each.draft)
        if each.draft
        else BrokenCalendar(each.name, each.problem or "")
        for each in found
    }


def refuse_unknown_calendars(schedules: ScheduleStorePort, draft: ScheduleDraft) -> None:
    """Refuse a draft that names a calendar which nobody has applied.

    Raises:
        ScheduleInvalid: with each of them.
    """
    if draft.conditions is None or not draft.conditions.calendars:
        return
    known = [each.name for each in schedules.calendars()]
    faults = tuple(
        Fault(field, f"there is no calendar {name}; {hint(name, known)}")
        for field in ("skip_on", "only_on")
        for name in getattr(draft.conditions, field)
        if name not in known
    )
    if faults:
        raise ScheduleInvalid(faults)

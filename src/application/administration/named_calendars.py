"""Calendars that a schedule names: there must be such ones, or it would never run."""

from cronhare.domain.schedules.draft import Fault, ScheduleDraft, ScheduleInvalid
from cronhare.domain.texts.hint import hint
from cronhare.ports.schedules import ScheduleStorePort


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

"""What times would come of a form that is being filled in."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from cronhare.adapters.jobs.tables import read_table
from cronhare.application.administration.notes import notes_on_times
from cronhare.application.administration.preview import preview
from cronhare.application.administration.views.due import DueView
from cronhare.domain.cron import find_zone
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.schedules.draft import Fault, ScheduleInvalid, compile_schedule

from ..api.scheduler_bodies import NewScheduler, draft_of
from .schedule_form import content_of

#: So many runs are shown.
_SHOWN: Final = 6

#: The fields that say when, and those of them one of which must be given.
_WHEN: Final = ("schedule", "every", "date_time")
_TIMES: Final = (*_WHEN, "timezone", "gap", "fold", "starts_at", "ends_at")


@attrs.frozen(kw_only=True)
class Preview:
    """The next runs, or what is wrong with the times; neither where nothing is said yet.

    What *stays_alive* needs no times; with some it is begun at these alone. *notes* say what is
    allowed, and probably not meant.
    """

    now: datetime
    upcoming: Sequence[DueView] = ()
    faults: Sequence[Fault] = ()
    notes: Sequence[str] = ()
    is_empty: bool = False
    stays_alive: bool = False


def preview_of(name: str, values: Mapping[str, str], *, now: datetime) -> Preview:
    """Preview the values of a form; what is wrong with other fields is no matter here."""
    stays_alive = values["stay_alive"] == "on"
    if not any(values[each] for each in _WHEN):
        return Preview(now=now, is_empty=True, stays_alive=stays_alive)
    faults = list[Fault]()
    content = content_of({each: values[each] for each in _TIMES}, faults, has_topic=False)
    given = {each: said for each, said in content.items() if said is not None}
    body = read_table(NewScheduler, given, faults)
    # `H` needs a name: with another one it is another minute.
    draft = draft_of(name or "unnamed", body, None, faults, policy=RetryPolicy())
    found = tuple(dict.fromkeys(fault for fault in faults if fault.field in _TIMES))
    if found:
        return Preview(now=now, faults=found)
    try:
        schedule = compile_schedule(draft, id=1, changed_at=now)
    except ScheduleInvalid as error:
        return Preview(now=now, faults=error.faults)
    zone = find_zone(draft.timezone)
    notes = [note.text for note in notes_on_times(draft, now=now)]
    upcoming = [*preview(schedule, zone, after=now, count=_SHOWN)]
    return Preview(now=now, upcoming=upcoming, notes=notes, stays_alive=stays_alive)

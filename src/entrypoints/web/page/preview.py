"""What would come of a form that is being filled in: its times, and who is there to run it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import attrs

from cronhare.application.administration.jobs_file.notes import notes_on_times
from cronhare.application.administration.reading.schedules import preview
from cronhare.application.administration.views.schedules import DueView
from cronhare.domain.cron import find_zone
from cronhare.domain.reading import Fault, read_table
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid, compile_schedule

from ..api.scheduler_bodies import NewScheduler, draft_of
from .schedule_form import content_of

#: So many runs are shown.
_SHOWN: Final = 6

#: The fields that say when, and those of them one of which must be given.
_WHEN: Final = ("schedule", "every", "date_time")
_TIMES: Final = (*_WHEN, "timezone", "gap", "fold", "starts_at", "ends_at")

#: The fields that say who runs it.
_WHO: Final = ("topic", "queue")

#: The fields of a form that are looked at here, besides the name.
PREVIEWED: Final = (*_TIMES, *_WHO, "stay_alive")

#: Notes what is probably not meant in who is to run a draft: see `DraftNotes.of`.
OnDraft: TypeAlias = Callable[[ScheduleDraft], Sequence[str]]


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


def preview_of(
    name: str, values: Mapping[str, str], *, now: datetime, notes_on: OnDraft
) -> Preview:
    """Preview the values of a form; what is wrong with other fields is no matter here."""
    preview = _times_of(name, values, now)
    return attrs.evolve(preview, notes=[*preview.notes, *_notes_on_who(name, values, notes_on)])


def _times_of(name: str, values: Mapping[str, str], now: datetime) -> Preview:
    stays_alive = values["stay_alive"] == "on"
    if not any(values[each] for each in _WHEN):
        return Preview(now=now, is_empty=True, stays_alive=stays_alive)
    draft, faults = _read(name, values, _TIMES)
    if faults:
        return Preview(now=now, faults=faults)
    try:
        schedule = compile_schedule(draft, id=1, changed_at=now)
    except ScheduleInvalid as error:
        return Preview(now=now, faults=error.faults)
    zone = find_zone(draft.timezone)
    notes = [note.text for note in notes_on_times(draft, now=now)]
    upcoming = [*preview(schedule, zone, after=now, count=_SHOWN)]
    return Preview(now=now, upcoming=upcoming, notes=notes, stays_alive=stays_alive)


def _notes_on_who(name: str, values: Mapping[str, str], notes_on: OnDraft) -> Sequence[str]:
    """Note a queue or a topic, each by itself: the other one may be half typed."""
    found = list[str]()
    for field in _WHO:
        if values[field]:
            draft, faults = _read(name, values, (field, "stay_alive"))
            found += () if faults else notes_on(draft)
    return found


def _read(
    name: str, values: Mapping[str, str], fields: Sequence[str]
) -> tuple[ScheduleDraft, Sequence[Fault]]:
    """Read some fields of a form, with the faults of these."""
    faults = list[Fault]()
    content = content_of({each: values[each] for each in fields}, faults, has_topic=False)
    given = {each: said for each, said in content.items() if said is not None}
    body = read_table(NewScheduler, given, faults)
    # `H` needs a name: with another one it is another minute.
    draft = draft_of(name or "unnamed", body, None, faults, policy=RetryPolicy())
    return draft, tuple(dict.fromkeys(fault for fault in faults if fault.field in fields))

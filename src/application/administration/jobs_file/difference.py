"""What applying a jobs file changes in the schedules table, and what files have in common."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from cronhare.application.reports.clashes import Clash, clashes, shared_queues
from cronhare.domain.reading import Fault
from cronhare.domain.schedules.conditions import CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import OWNER_FIELDS
from cronhare.domain.schedules.task import Task, TaskRef, same_params
from cronhare.domain.texts.words import listed
from cronhare.ports.schedules import StoredCalendar, StoredSchedule


class FileContent(Protocol):
    """What a jobs file has; *source* is the name by which the ledger knows it."""

    @property
    def source(self) -> str: ...
    @property
    def tasks(self) -> Sequence[Task]: ...
    @property
    def drafts(self) -> Sequence[ScheduleDraft]: ...
    @property
    def calendars(self) -> Sequence[CalendarDraft]: ...
    @property
    def on_start(self) -> Sequence[str]: ...
    @property
    def on_boot(self) -> Sequence[str]: ...


def queues_shared_among(files: Sequence[FileContent]) -> Mapping[str, Sequence[str]]:
    used = [(draft.runs_on, file.source) for file in files for draft in file.drafts if draft.status]
    return shared_queues(used)


def clashes_among(files: Sequence[FileContent]) -> Iterator[Clash]:
    """Find what a file has in common with those before it, and must not."""
    names, numbers = dict[str, str](), dict[TaskRef, str]()
    for file in files:
        yield from clashes(file.drafts, file.tasks, names=names, numbers=numbers)
        names = {draft.name: file.source for draft in file.drafts} | names
        ours = {task.ref: f"tasks.{task.name} of {file.source}" for task in file.tasks}
        numbers = ours | numbers


class Change(enum.Enum):
    """What becomes of one schedule."""

    ADD = "add"
    CHANGE = "change"
    DISABLE = "disable"
    KEEP = "keep"


@attrs.frozen
class FieldChange:
    """One field, before and after."""

    field: str
    before: object
    after: object


class ChangedKind(enum.Enum):
    """What is changed."""

    SCHEDULE = "schedule"
    CALENDAR = "calendar"


@attrs.frozen(kw_only=True)
class ScheduleChange:
    """One schedule's change, or one calendar's, which is removed rather than disabled.

    *draft* is as in the file, None where the file has it no more; likewise *calendar*.
    """

    name: str
    change: Change
    kind: ChangedKind = ChangedKind.SCHEDULE
    draft: ScheduleDraft | None = None
    calendar: CalendarDraft | None = None
    fields: tuple[FieldChange, ...] = ()


def difference(
    drafts: Sequence[ScheduleDraft], stored: Sequence[StoredSchedule], *, source: str
) -> tuple[ScheduleChange, ...]:
    """Compare a jobs file with the table, in the order of the file, then of the table.

    Schedules that came from *source* and are no longer in it are disabled; those that came from
    elsewhere, or were written by hand, are left alone.
    """
    before = {schedule.name: schedule for schedule in stored}
    wanted = {draft.name for draft in drafts}
    changes = [_compare(draft, before.get(draft.name), source) for draft in drafts]
    changes += [
        ScheduleChange(name=schedule.name, change=Change.DISABLE)
        for schedule in stored
        if schedule.source == source and schedule.name not in wanted and _is_on(schedule)
    ]
    return tuple(changes)


def calendar_difference(
    drafts: Sequence[CalendarDraft], stored: Sequence[StoredCalendar], *, source: str
) -> tuple[ScheduleChange, ...]:
    """Compare a jobs file's calendars with the table's, as `difference` does its schedules.

    One that is as it should be is no change at all.
    """
    before = {calendar.name: calendar for calendar in stored}
    wanted = {draft.name for draft in drafts}
    changes = [_compare(draft, before.get(draft.name), source) for draft in drafts]
    changes += [
        ScheduleChange(name=one.name, change=Change.DISABLE, kind=ChangedKind.CALENDAR)
        for one in stored
        if one.source == source and one.name not in wanted
    ]
    return tuple(change for change in changes if change.change is not Change.KEEP)


def _compare(
    draft: ScheduleDraft | CalendarDraft,
    stored: StoredSchedule | StoredCalendar | None,
    source: str,
) -> ScheduleChange:
    fields = [] if stored is None else [*_fields(draft, stored, source)]
    change = Change.ADD if stored is None else Change.CHANGE if fields else Change.KEEP
    found = ScheduleChange(name=draft.name, change=change, fields=tuple(fields))
    if isinstance(draft, CalendarDraft):
        return attrs.evolve(found, kind=ChangedKind.CALENDAR, calendar=draft)
    return attrs.evolve(found, draft=draft)


def _fields(
    draft: ScheduleDraft | CalendarDraft, stored: StoredSchedule | StoredCalendar, source: str
) -> Iterator[FieldChange]:
    if stored.source != source:
        yield FieldChange("source", stored.source, source)
    if stored.draft is None:
        yield FieldChange("row", stored.problem, "replaced")
        return
    for field in attrs.fields(type(draft)):
        before, after = getattr(stored.draft, field.name), getattr(draft, field.name)
        is_left_out = after is None and field.name in OWNER_FIELDS
        if before == after or is_left_out:
            continue
        if field.name == "windows":
            yield _windows_changed(before, after)
        elif field.name != "params" or not same_params(before, after):
            yield FieldChange(field.name, before, after)


def _windows_changed(
    before: Sequence[tuple[str, object]], after: Sequence[tuple[str, object]]
) -> FieldChange:
    old, new = (dict.fromkeys(text for text, _ in windows) for windows in (before, after))
    gone, added = (
        listed([text for text in one if text not in other]) or "nothing"
        for one, other in ((old, new), (new, old))
    )
    return FieldChange("days", gone, added)


def _is_on(schedule: StoredSchedule) -> bool:
    return schedule.draft is None or schedule.draft.status


def unknown_calendars(draft: ScheduleDraft, known: Sequence[str]) -> Iterator[Fault]:
    """Find the calendars that a schedule names and that are none of *known*; not if it is off.

    Each fault is of a table of the jobs file.
    """
    if draft.conditions is not None and draft.status:
        for fault in draft.conditions.faults_among(known):
            yield Fault(f"schedules.{draft.name}", str(fault))

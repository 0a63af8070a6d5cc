"""What applying a jobs file changes in the schedules table."""

import enum
from collections.abc import Iterator, Sequence

import attrs

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.owner import OWNER_FIELDS
from cronhare.ports.schedules import StoredSchedule


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


@attrs.frozen(kw_only=True)
class ScheduleChange:
    """One schedule's change. *draft* is as in the file, None where the file has it no more."""

    name: str
    change: Change
    draft: ScheduleDraft | None = None
    fields: tuple[FieldChange, ...] = ()

    @property
    def only_names_its_task(self) -> str | None:
        """The name that its task gets, if nothing else changes: in a row from before names.

        That is no edit of the schedule: what was missed meanwhile is still caught up.
        """
        match self.fields, self.draft:
            case (FieldChange("task_name", None, str() as name),), ScheduleDraft():
                return name
        return None


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


def _compare(draft: ScheduleDraft, stored: StoredSchedule | None, source: str) -> ScheduleChange:
    if stored is None:
        return ScheduleChange(name=draft.name, change=Change.ADD, draft=draft)
    fields = tuple(_fields(draft, stored, source))
    change = Change.CHANGE if fields else Change.KEEP
    return ScheduleChange(name=draft.name, change=change, draft=draft, fields=fields)


def _fields(draft: ScheduleDraft, stored: StoredSchedule, source: str) -> Iterator[FieldChange]:
    if stored.source != source:
        yield FieldChange("source", stored.source, source)
    if stored.draft is None:
        yield FieldChange("row", stored.problem, "replaced")
        return
    for field in attrs.fields(ScheduleDraft):
        before, after = getattr(stored.draft, field.name), getattr(draft, field.name)
        is_left_out = after is None and field.name in OWNER_FIELDS
        if before != after and not is_left_out:
            yield FieldChange(field.name, before, after)


def _is_on(schedule: StoredSchedule) -> bool:
    return schedule.draft is None or schedule.draft.status

"""What a jobs file changes, schedule by schedule."""

from collections.abc import Iterable, Iterator
from typing import Any, Self

import attrs

from cronhare.domain.cron import ClockEffect

from ..difference import Change, ChangedKind, FieldChange, ScheduleChange
from .due import ClockEffectView
from .schedules import shown_field


@attrs.frozen(kw_only=True)
class FieldChangeView:
    """A field before and after, by its name and in its form of `ScheduleView`.

    *field* is `row` where the row before cannot be understood: *before* then says why.
    """

    field: str
    before: Any
    after: Any


@attrs.frozen(kw_only=True)
class ScheduleChangeView:
    """What becomes of a schedule or a calendar. *fields* are those that differ in a change.

    *clock* is what the next changes of the clock do to it.
    """

    kind: ChangedKind
    name: str
    change: Change
    fields: tuple[FieldChangeView, ...]
    clock: tuple[ClockEffectView, ...]

    @classmethod
    def of(cls, change: ScheduleChange, effects: Iterable[ClockEffect]) -> Self:
        """Show a change, and the *effects* of the clock's."""
        fields = tuple(shown for field in change.fields for shown in _fields(field))
        clock = tuple(map(ClockEffectView.of, effects))
        return cls(
            kind=change.kind, name=change.name, change=change.change, fields=fields, clock=clock
        )


def _fields(change: FieldChange) -> Iterator[FieldChangeView]:
    """Show a field of a draft, which may be several of a view."""
    before, after = (shown_field(change.field, each) for each in (change.before, change.after))
    for field, value in after.items():
        if before[field] != value:
            yield FieldChangeView(field=field, before=before[field], after=value)

"""Schedules and filters as the audit shows them: the fields that say something, as in the views."""

from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from cronhare.domain.lifecycle.failure_filter import FailureFilter
from cronhare.domain.schedules.draft import ScheduleDraft

from .difference import Change, ChangedKind, ScheduleChange
from .views.schedules import shown_field


def values_of(draft: ScheduleDraft | None) -> dict[str, Any] | None:
    """Give the fields of a draft that are not at their defaults; None for a broken row."""
    if draft is None:
        return None
    shown = dict[str, Any]()
    for field in attrs.fields(ScheduleDraft):
        value = getattr(draft, field.name)
        if field.name != "name" and value != field.default:
            shown |= shown_field(field.name, value)
    return dict(plain(shown))


def differing(
    before: ScheduleDraft | None, after: ScheduleDraft
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Give the fields of two drafts that differ, before and after."""
    if before is None:
        return None, values_of(after)
    old, new = dict[str, Any](), dict[str, Any]()
    for field in attrs.fields(ScheduleDraft):
        was, becomes = getattr(before, field.name), getattr(after, field.name)
        if was != becomes:
            old |= shown_field(field.name, was)
            new |= shown_field(field.name, becomes)
    same = {name for name in new if old.get(name) == new[name]}
    return plain(_without(old, same)), plain(_without(new, same))


def values_of_filter(which: FailureFilter) -> dict[str, Any]:
    """Give the conditions of a filter."""
    return dict(plain(which.conditions))


def values_of_change(change: ScheduleChange) -> tuple[Any, Any]:
    """Give what a jobs file changes of one schedule, or calendar, before and after."""
    if change.change is Change.DISABLE:
        is_schedule = change.kind is ChangedKind.SCHEDULE
        return ({"status": True}, {"status": False}) if is_schedule else ("there", "removed")
    if change.change is Change.ADD and change.kind is ChangedKind.SCHEDULE:
        return None, values_of(change.draft)
    before, after = dict[str, Any](), dict[str, Any]()
    for field in change.fields:
        before |= shown_field(field.field, field.before)
        after |= shown_field(field.field, field.after)
    return plain(before), plain(after)


def names_of(changes: Sequence[ScheduleChange], which: Change) -> list[str]:
    """Name those of which that becomes."""
    return [change.name for change in changes if change.change is which]


def plain(value: Any) -> Any:  # noqa: ANN401 - a value of a view
    """Make a JSON value of a view."""
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)


def _without(values: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}

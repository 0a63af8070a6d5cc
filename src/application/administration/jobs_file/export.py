"""Choosing the schedules of a jobs file that is to be written."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from cronhare.domain.schedules.conditions import CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.texts.words import counted, listed
from cronhare.ports.schedules import ScheduleStorePort, StoredCalendar, StoredSchedule

from ..reading.lookup import find_schedules
from .difference import Change, calendar_difference, difference


class CannotExport(ValueError):
    """It is not clear which schedules are meant; the message says how to name them."""


@attrs.frozen(kw_only=True)
class Chosen:
    """The *drafts* of one source, each with the name of its task; rows by hand have no source.

    *left_out* says by name why a row cannot be in a file. *others* are on and of the same source:
    where they are not in the file, to apply it disables them. *calendars* are all of the source,
    as to apply a file without one removes it; by hand, those that the drafts name. *elsewhere*
    maps those that they name as well to the sources that have them.
    """

    source: str | None
    drafts: Sequence[ScheduleDraft]
    left_out: Mapping[str, str]
    others: Sequence[str]
    calendars: Sequence[CalendarDraft] = ()
    elsewhere: Mapping[str, str] = attrs.field(factory=dict[str, str])


@attrs.frozen
class Exporter:
    """Answers which schedules a file is to have, and what `plan` says of it."""

    _schedules: ScheduleStorePort

    def choose(self, names: Sequence[str], *, source: str | None, by_hand: bool) -> Chosen:
        """Choose the schedules called *names*, else all of *source*, else all by hand.

        If nothing is said, all of the one source that there is.
        """
        stored = self._schedules.schedules()
        wanted = find_schedules(self._schedules, names) if names else stored
        if by_hand or source is not None:
            wanted = [each for each in wanted if each.source == (None if by_hand else source)]
        asked = listed([*names]) if names else source or "by hand"
        if not wanted:
            raise CannotExport(f"there is no schedule of this kind: {asked}; {_sources(stored)}")
        found = {each.source for each in wanted}
        if not names and not by_hand and source is None:
            found -= {None} if len(found) > 1 else set()
        if len(found) > 1:
            raise CannotExport(
                f"these schedules are of several sources; say which: {_sources(stored)}"
            )
        [of] = found
        chosen = _chosen(of, [each for each in wanted if each.source == of], stored)
        return _with_calendars(chosen, self._schedules.calendars())

    def differences(
        self,
        drafts: Sequence[ScheduleDraft],
        calendars: Sequence[CalendarDraft] = (),
        *,
        source: str,
    ) -> Mapping[str, Sequence[str]]:
        """Name the fields in which a file that was written differs from the tables.

        By schedule, and by calendar as `calendars.NAME`; one that would be removed is *missing*.
        """
        changes = difference(drafts, self._schedules.schedules(), source=source)
        dated = calendar_difference(calendars, self._schedules.calendars(), source=source)
        return {
            change.name: [field.field for field in change.fields]
            for change in changes
            if change.change is Change.CHANGE
        } | {
            f"calendars.{change.name}": [field.field for field in change.fields] or ["missing"]
            for change in dated
            if change.change in {Change.CHANGE, Change.DISABLE}
        }


def _sources(stored: Iterable[StoredSchedule]) -> str:
    counts: dict[str | None, int] = {}
    for each in stored:
        counts[each.source] = counts.get(each.source, 0) + 1
    by_hand = counts.pop(None, 0)
    said = [f"--source {name} ({counted(n, 'schedule')})" for name, n in sorted(counts.items())]
    said += [f"--by-hand ({counted(by_hand, 'schedule')})"] if by_hand else []
    return f"there are {', '.join(said)}" if said else "there are none"


def _chosen(
    source: str | None, wanted: Sequence[StoredSchedule], stored: Sequence[StoredSchedule]
) -> Chosen:
    left_out = {
        each.name: f"its row is broken: {each.problem}" for each in wanted if not each.draft
    }
    drafts = [each.draft for each in wanted if each.draft is not None]
    names = {draft.task: draft.task_name for draft in drafts if draft.task_name}
    return Chosen(
        source=source,
        drafts=[attrs.evolve(draft, task_name=_task_of(draft, names)) for draft in drafts],
        left_out=left_out,
        others=[
            each.name
            for each in stored
            if source is not None
            and each.source == source
            and (each.draft is None or each.draft.status)
        ],
    )


def _with_calendars(chosen: Chosen, stored: Sequence[StoredCalendar]) -> Chosen:
    named = {name for draft in chosen.drafts for name in draft.calendars}
    ours = [
        each
        for each in stored
        if each.source == chosen.source and (chosen.source is not None or each.name in named)
    ]
    broken = {
        f"calendars.{each.name}": f"its row is broken: {each.problem}"
        for each in ours
        if each.draft is None
    }
    return attrs.evolve(
        chosen,
        calendars=[each.draft for each in ours if each.draft is not None],
        left_out={**chosen.left_out, **broken},
        elsewhere={
            each.name: each.source or "no source"
            for each in stored
            if each.name in named and each not in ours
        },
    )


def _task_of(draft: ScheduleDraft, names: Mapping[TaskRef, str]) -> str | None:
    """Name the task in the file: as another schedule does, or by its number; a topic needs none."""
    if draft.topic is not None:
        return None
    return draft.task_name or names.get(draft.task) or f"{draft.task.type}-{draft.task.id}"

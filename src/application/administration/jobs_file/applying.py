"""Jobs files and the schedules table: what one of them changes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import attrs

from cronhare.application.reports.clashes import Clash, clashes, namesake, shared_queues
from cronhare.domain.access import Actor
from cronhare.domain.audit import MOST_ENTRIES, Action
from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.reading import MOST_FAULTS, Fault
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.schedules import ScheduleStorePort, StoredCalendar, StoredSchedule

from ..audit import AuditTrail, names_of, values_of_change
from ..reading.lookup import find_schedule
from ..views.schedules import ScheduleChangeView
from .difference import (
    Change,
    ChangedKind,
    FileContent,
    ScheduleChange,
    calendar_difference,
    difference,
    unknown_calendars,
)


class CannotApply(ValueError):
    """A jobs file does not go with what the ledger has; nothing was changed.

    It names or numbers something as another one does (*clashes*), or a schedule that is on would
    name a calendar that is in no file (*calendars*).
    """

    def __init__(self, clashes: Sequence[Clash], calendars: Sequence[Fault] = ()) -> None:
        self.clashes = tuple(clashes)
        self.calendars = tuple(calendars)
        super().__init__("; ".join(map(str, (*clashes, *calendars))))


@attrs.frozen
class JobsFileApplier:
    """Makes the schedules table as jobs files say; the schedulers notice by themselves."""

    _schedules: ScheduleStorePort
    _trail: AuditTrail

    def compare(self, file: FileContent) -> tuple[ScheduleChange, ...]:
        """Say what `apply` would change, or raise `CannotApply`."""
        if (error := self.why_not(file)) is not None:
            raise error
        return self._difference(file)

    def why_not(self, file: FileContent) -> CannotApply | None:
        stored, calendars = self._schedules.schedules(), self._schedules.calendars()
        clashes = [*_clashes(file, stored), *_calendar_clashes(file, calendars)]
        missing = [*islice(_calendar_faults(file, stored, calendars), MOST_FAULTS)]
        return CannotApply(clashes, missing) if clashes or missing else None

    def apply(
        self, file: FileContent, *, actor: Actor, on_progress: OnProgress = unwatched
    ) -> tuple[ScheduleChange, ...]:
        """Make the table as the file says; what is as it should be is not touched.

        *on_progress* hears of the schedules as they are written. It raises as `compare` does.
        """
        changes = self.compare(file)
        self._save(changes, source=file.source, actor=actor, on_progress=on_progress)
        return changes

    def take_over(self, file: FileContent, *, actor: Actor) -> tuple[ScheduleChange, ...]:
        """Apply a file in spite of clashes: a row must not keep a machine from starting.

        Schedules of its names are taken over, as when the file goes by another name now.
        """
        changes = self._difference(file)
        self._save(changes, source=file.source, actor=actor)
        return changes

    def shared_queues(
        self, file: FileContent, *, beside: Collection[str] = ()
    ) -> Mapping[str, Sequence[str]]:
        """Find the queues of a file on which others have schedules too, with all sources.

        Those *beside* it are given to the same processes.
        """
        names = {draft.name for draft in file.drafts}
        ours = {draft.runs_on for draft in file.drafts if draft.status}
        used = [(queue, file.source) for queue in ours]
        used += [
            (draft.runs_on, other)
            for other, draft in _run_by_others(self._schedules.schedules(), file.source)
            if draft.runs_on in ours and draft.name not in names and other not in beside
        ]
        return shared_queues(used)

    def _difference(self, file: FileContent) -> tuple[ScheduleChange, ...]:
        stored, calendars = self._schedules.schedules(), self._schedules.calendars()
        return (
            *calendar_difference(file.calendars, calendars, source=file.source),
            *difference(file.drafts, stored, source=file.source),
        )

    def _save(
        self,
        changes: Sequence[ScheduleChange],
        *,
        source: str,
        actor: Actor,
        on_progress: OnProgress = unwatched,
    ) -> None:
        wanted = [change for change in changes if change.change in {Change.ADD, Change.CHANGE}]
        edited = [change.draft for change in wanted if change.draft]
        gone = [change for change in changes if change.change is Change.DISABLE]
        disabled = [change.name for change in gone if change.kind is ChangedKind.SCHEDULE]
        dropped = [change.name for change in gone if change.kind is ChangedKind.CALENDAR]
        calendars = [change.calendar for change in wanted if change.calendar]
        if not (edited or gone or calendars):
            return
        asked, actions = _entries(changes, source)
        with self._trail.changes(actor, actions, asked) as notes:
            self._schedules.save(
                edited,
                source=source,
                now=notes[source].at,
                disabled=disabled,
                calendars=calendars,
                dropped=dropped,
                on_progress=on_progress,
            )


#: What the audit calls what becomes of a schedule, and of a calendar.
_ACTIONS: Final = {
    (ChangedKind.SCHEDULE, Change.ADD): Action.CREATE,
    (ChangedKind.SCHEDULE, Change.CHANGE): Action.EDIT,
    (ChangedKind.SCHEDULE, Change.DISABLE): Action.DISABLE,
    (ChangedKind.CALENDAR, Change.ADD): Action.SAVE_CALENDAR,
    (ChangedKind.CALENDAR, Change.CHANGE): Action.SAVE_CALENDAR,
    (ChangedKind.CALENDAR, Change.DISABLE): Action.DELETE_CALENDAR,
}


def _entries(
    changes: Sequence[ScheduleChange], source: str
) -> tuple[dict[str, tuple[Any, Any]], dict[str, Action]]:
    """Give an entry of the audit for the file, and one for each change unless these are many."""
    made = [change for change in changes if change.change is not Change.KEEP]
    said = {
        f"{kind.value}s {word}": {"how many": len(names), "names": names}
        for kind in ChangedKind
        for change, word in _WORDS.items()
        if (names := names_of([each for each in made if each.kind is kind], change))
    }
    asked: dict[str, tuple[Any, Any]] = {source: (None, said)}
    actions = {source: Action.APPLY}
    if len(made) <= MOST_ENTRIES:
        for change in made:
            is_calendar = change.kind is ChangedKind.CALENDAR
            name = f"calendar {change.name}" if is_calendar else change.name
            asked[name] = values_of_change(change)
            actions[name] = _ACTIONS[change.kind, change.change]
    return asked, actions


_WORDS: Final = {Change.ADD: "added", Change.CHANGE: "changed", Change.DISABLE: "taken away"}


def _calendar_clashes(file: FileContent, calendars: Sequence[StoredCalendar]) -> Iterator[Clash]:
    ours = {draft.name for draft in file.calendars}
    for one in calendars:
        if one.name in ours and one.source and one.source != file.source:
            yield namesake(one.name, one.source, what="calendar")


def _calendar_faults(
    file: FileContent, stored: Sequence[StoredSchedule], calendars: Sequence[StoredCalendar]
) -> Iterator[Fault]:
    """Find what would never run: a schedule is held while a calendar that it names is missing."""
    ours = {draft.name for draft in file.calendars}
    there = ours | {one.name for one in calendars if one.source != file.source}
    for draft in file.drafts:
        yield from unknown_calendars(draft, sorted(there))
    written = {draft.name for draft in file.drafts}
    gone = {one.name for one in calendars} - there
    for each in stored:
        if each.draft is None or each.source == file.source or each.name in written:
            continue
        if each.draft.status:
            whose = f" of {each.source}" if each.source else ", a row by hand"
            why = f"would be removed, and is named by {each.name}{whose}, which is on"
            for name in sorted(gone & each.draft.calendars):
                yield Fault(f"calendars.{name}", why)


def _clashes(file: FileContent, stored: Sequence[StoredSchedule]) -> Iterator[Clash]:
    wanted, numbers = {draft.name for draft in file.drafts}, dict[TaskRef, str]()
    names = {
        each.name: each.source for each in stored if each.source and each.source != file.source
    }
    for source, draft in _run_by_others(stored, file.source):
        if draft.name not in wanted:
            task = f"task {draft.task_name}, " if draft.task_name else ""
            numbers.setdefault(draft.task, f"{task}schedule {draft.name} of {source}")
    return clashes(file.drafts, file.tasks, names=names, numbers=numbers)


def _run_by_others(
    stored: Sequence[StoredSchedule], source: str
) -> Iterator[tuple[str, ScheduleDraft]]:
    for each in stored:
        if each.source and each.source != source and each.draft and each.draft.status:
            yield each.source, each.draft


def change_by_file(
    schedules: ScheduleStorePort, name: str, files: Sequence[FileContent]
) -> ScheduleChangeView | None:
    """Compare a schedule with its file, if that is at hand; None if it is of another or of none."""
    stored = find_schedule(schedules, name)
    file = next((each for each in files if each.source == stored.source), None)
    if file is None:
        return None
    drafts = [draft for draft in file.drafts if draft.name == stored.name]
    found = difference(drafts, [stored], source=file.source)
    return ScheduleChangeView.of(found[0], ()) if found else None

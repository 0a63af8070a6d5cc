"""Jobs files and the schedules table: what one changes, and which schedules one is to have."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import attrs

from cronhare.application.reports.clashes import Clash, clashes, namesake, shared_queues
from cronhare.domain.access import Actor
from cronhare.domain.audit import MOST_ENTRIES, Action
from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.reading import MOST_FAULTS, Fault
from cronhare.domain.schedules.conditions import CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.texts.words import counted, listed
from cronhare.ports.schedules import ScheduleStorePort, StoredCalendar, StoredSchedule

from ..audit import AuditTrail, names_of, values_of_change
from ..reading.lookup import find_schedule, find_schedules
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
        """Say what `apply` would change."""
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

        *on_progress* hears of the schedules as they are written.
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

        Raises:
            NotFound: one of the names does not exist.
            CannotExport: they are of several sources, or there is none.
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

"""Notes on jobs files: what is allowed, and probably not meant."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

import attrs

from cronhare.application.reports.clashes import say_disabled, say_shared
from cronhare.domain.cron import AS_CRON, CronExpression, clock_changes
from cronhare.domain.events.targets import Subscriptions, untellable
from cronhare.domain.nodes import MOST_REPORTS, served
from cronhare.domain.reading import MOST_FAULTS
from cronhare.domain.schedules.catalog import ONE_FILE_EACH
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import hint
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.attempts import NodeStorePort

from ..reading.schedules import next_effects
from .difference import Change, ChangedKind, FileContent, ScheduleChange, unknown_calendars

#: So many effects of clock changes are noted of one file.
MOST_CLOCK_NOTES = 20


@attrs.frozen
class Note:
    """What is allowed and probably not meant; *place* names a part of the file."""

    text: str
    place: str | None = None

    def __str__(self) -> str:
        return self.text if self.place is None else f"{self.place}: {self.text}"


def notes_on(file: FileContent, *, now: datetime) -> Iterator[Note]:
    if not file.tasks:
        text = "it has no task at all: no worker starts with it, nor does `cronhare up`"
        yield Note(text)
    for draft in file.drafts:
        place = f"schedules.{draft.name}"
        if draft.name in file.on_start:
            text = "on_start runs at each start of `cronhare up`, and of no worker"
            yield Note(text, place)
        if draft.name in file.on_boot:
            text = (
                "on_boot runs once for each boot of a host with `cronhare up` or a worker of this "
                "file; whichever worker takes it, on any host"
            )
            yield Note(text, place)
        yield from notes_on_times(draft, now=now)
    yield from notes_on_keys(file)


def notes_on_times(draft: ScheduleDraft, *, now: datetime) -> Iterator[Note]:
    """Note what is probably not meant in the times of a draft without faults."""
    place = f"schedules.{draft.name}"
    if draft.date_time is not None and draft.date_time <= now:
        text = "date_time is in the past: it will not run"
        yield Note(text, place)
    if draft.every is not None and draft.jitter > draft.every:
        text = "jitter is longer than every: runs may begin in another order"
        yield Note(text, place)
    if draft.schedule is not None:
        yield from _on_cron_text(draft, CronExpression.parse(draft.schedule, draft.name), place)


def _on_cron_text(draft: ScheduleDraft, expression: CronExpression, place: str) -> Iterator[Note]:
    for warning in expression.warnings:
        yield Note(f"schedule: {warning}", place)
    if expression.wildcard and clock_changes(draft.gap, draft.fold) is not AS_CRON:
        text = (
            "gap and fold say nothing of a minute or an hour that begins with *: it runs at each "
            "real minute that matches"
        )
        yield Note(text, place)


def notes_on_clocks(changes: Sequence[ScheduleChange], *, now: datetime) -> Iterator[Note]:
    noted = [
        Note(f"{effect.meant:%Y-%m-%d} {effect}", f"schedules.{change.name}")
        for change in changes
        if change.draft is not None and change.change is not Change.KEEP
        for effect in next_effects(change.draft, now=now)
    ]
    yield from noted[:MOST_CLOCK_NOTES]
    if (left := len(noted) - MOST_CLOCK_NOTES) > 0:
        text = f"{left} more of what changes of the clock do: `cronhare next` shows it of each text"
        yield Note(text)


def notes_on_changes(
    changes: Sequence[ScheduleChange], *, source: str, applied: bool
) -> Iterator[Note]:
    """Note that nothing stays of what a file of this name had: it may be another one."""
    changes = [change for change in changes if change.kind is ChangedKind.SCHEDULE]
    if {change.change for change in changes} == {Change.ADD, Change.DISABLE}:
        gone = [change.name for change in changes if change.change is Change.DISABLE]
        verb = "are" if applied else "would be"
        text = f"all of its former schedules {verb} {say_disabled(gone, source)}"
        yield Note(text)


def notes_on_renames(changes: Sequence[ScheduleChange], *, file: FileContent) -> Iterator[Note]:
    """Note the tasks that another name seems to have become: their runs would not be found.

    A schedule changes from a task that is gone to one that is new; or of an app one task is gone,
    and one is new.
    """
    known = {name for task in file.tasks for name in (task.name, *task.aliases)}
    kept = {each.draft.task_name for each in changes if each.draft and each.change is Change.KEEP}
    became = {
        field.after: field.before
        for each in changes
        for field in each.fields
        if field.field == "task_name" and field.before and field.after not in kept
    }
    own = f"{file.source}:"
    added, gone = (
        [
            each.name.removeprefix(own)
            for each in changes
            if each.change is kind and each.name.startswith(own)
        ]
        for kind in (Change.ADD, Change.DISABLE)
    )
    if len(added) == len(gone) == 1:
        became.setdefault(added[0], gone[0])
    for after, before in became.items():
        if after in known and before not in known:
            text = (
                f'looks like a rename of {before}: aliases = ["{before}"] keeps its runs under way'
            )
            yield Note(text, f"tasks.{after}")


def notes_on_calendars(files: Sequence[FileContent]) -> Iterator[Note]:
    """Note the calendars that are named and in none of these files: another one may have them."""
    known = [draft.name for file in files for draft in file.calendars]
    drafts = (draft for file in files for draft in file.drafts)
    faults = (fault for draft in drafts for fault in unknown_calendars(draft, known))
    for fault in islice(faults, MOST_FAULTS):
        text = f"{fault.problem}. If another jobs file has it, apply that one first"
        yield Note(text, fault.field)


def notes_on_topics(files: Sequence[FileContent]) -> Iterator[Note]:
    """Note the topics to which no task of these files listens: one of another file may."""
    heard = {topic for file in files for task in file.tasks for topic in task.topics}
    of = "these jobs files" if len(files) > 1 else "this jobs file"
    found = (
        Note(text, f"schedules.{draft.name}")
        for file in files
        for draft in file.drafts
        for text in _note_unheard(draft.topic, heard, of=of)
    )
    return islice(found, MOST_FAULTS)


def notes_on_served(
    files: Sequence[FileContent], served: Collection[str], *, by: str
) -> Iterator[Note]:
    """Note the queues that those who serve these do not: *by* names them."""
    found = (
        Note(text, f"schedules.{draft.name}")
        for file in files
        for draft in file.drafts
        for text in _note_unserved(_queue_of(draft), served, by=by)
    )
    return islice(found, MOST_FAULTS)


def _queue_of(draft: ScheduleDraft) -> str | None:
    return None if draft.stay_alive or draft.queue == MAIN_QUEUE else draft.queue


def _note_unserved(queue: str | None, served: Collection[str], *, by: str) -> Iterator[str]:
    if queue is not None and queue not in served:
        text = f"queue: no {by} serves {echo(queue)}, its runs wait for one"
        # What only a schedule that stays alive may have is not offered.
        yield _said(text, queue, [name for name in served if not is_standalone(name)])


def _note_unheard(topic: str | None, heard: Collection[str], *, of: str) -> Iterator[str]:
    if topic is not None and topic not in heard:
        text = f"topic: no task of {of} listens to {echo(topic)}, another file's may"
        yield _said(text, topic, heard)


def _said(text: str, name: str, known: Collection[str]) -> str:
    return f"{text}; {hint(name, sorted(known))}" if known else text


def notes_on_keys(file: FileContent) -> Iterator[Note]:
    """Note the concurrency keys that the params of each run leave empty.

    Whoever asks for a run may bring others: of what begins only by hand nothing is noted.
    """
    begun = {*file.on_start, *file.on_boot}
    drafts = (
        draft for draft in file.drafts if draft.has_times or draft.stay_alive or draft.name in begun
    )
    yield from islice((note for draft in drafts for note in _on_key(draft)), MOST_FAULTS)


def _on_key(draft: ScheduleDraft) -> Iterator[Note]:
    if (concurrency := draft.concurrency) is None:
        return
    for part in concurrency.lacking(draft.params):
        alike = f"each run has the key {echo(concurrency.key_of(draft.params))}"
        text = f"concurrency.key: {part} is no text or whole number in its params: {alike}"
        yield Note(text, f"schedules.{draft.name}")


def notes_on_targets(subscriptions: Subscriptions, *, has_mail: bool) -> Iterator[Note]:
    """Note the targets that this process could not tell: whoever tells them may be another one."""
    for name, why in untellable(subscriptions, has_mail=has_mail).items():
        text = f"{why} here; whoever tells this target needs it: a worker, or `cronhare up`"
        yield Note(text, f"notify.{name}")


def notes_on_queues(shared: Mapping[str, Sequence[str]]) -> Iterator[Note]:
    for queue, sources in shared.items():
        text = f"{say_shared(queue, sources)}: {ONE_FILE_EACH}"
        yield Note(text)


@attrs.define(kw_only=True, eq=False)
class DraftNotes:
    """Knows the tasks of this process's jobs file, and the workers; *now* is the ledger's clock."""

    _nodes: NodeStorePort
    _tasks: Iterable[Task]
    _now: Callable[[], datetime]

    def of(self, draft: ScheduleDraft, *, before: ScheduleDraft | None = None) -> Sequence[str]:
        """Note what is probably not meant in a schedule of no file; after an edit, what it brought.

        That is odd times, an empty concurrency key, and a queue or a topic that nobody here has.
        *before* is the schedule as it was.
        """
        now = self._now()
        known = set[str]() if before is None else {*self._alone(before, now)}
        found = [note for note in self._alone(draft, now) if note not in known]
        if (queue := _queue_of(draft)) is not None and not (before and before.queue == queue):
            there = served(self._nodes.nodes(now=now, limit=MOST_REPORTS).reports, now)
            found += _note_unserved(queue, there, by="worker")
        if not (before and before.topic == draft.topic):
            heard = {topic for task in self._tasks for topic in task.topics}
            found += _note_unheard(draft.topic, heard, of="this jobs file")
        return found

    def _alone(self, draft: ScheduleDraft, now: datetime) -> Sequence[str]:
        return [note.text for note in (*notes_on_times(draft, now=now), *_on_key(draft))]

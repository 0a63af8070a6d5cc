"""Notes on jobs files: what is allowed, and probably not meant."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import attrs

from cronhare.domain.cron import CronExpression
from cronhare.domain.schedules.clashes import ONE_FILE_EACH, say_disabled, say_shared

from .difference import Change, ScheduleChange
from .jobs_files import FileContent


class NoteReason(enum.Enum):
    """Why something is noted."""

    NO_TASK = "no-task"
    PAST = "past"
    ON_START = "on-start"
    CRON_TEXT = "cron-text"
    ALL_REPLACED = "all-replaced"
    SHARED_QUEUE = "shared-queue"


@attrs.frozen
class Note:
    """What is allowed and probably not meant; *place* names a part of the file."""

    reason: NoteReason
    text: str
    place: str | None = None

    def __str__(self) -> str:
        return self.text if self.place is None else f"{self.place}: {self.text}"


def notes_on(file: FileContent, *, now: datetime) -> Iterator[Note]:
    """Note what is probably not meant in a file by itself."""
    if not file.tasks:
        text = "it has no task at all: no worker starts with it, nor does `cronhare up`"
        yield Note(NoteReason.NO_TASK, text)
    for draft in file.drafts:
        place = f"schedules.{draft.name}"
        if draft.date_time is not None and draft.date_time <= now:
            text = "date_time is in the past: it will not run"
            yield Note(NoteReason.PAST, text, place)
        if draft.name in file.on_start:
            text = "on_start runs at each start of `cronhare up`, and of no worker"
            yield Note(NoteReason.ON_START, text, place)
        if draft.schedule is not None:
            for warning in CronExpression.parse(draft.schedule).warnings:
                yield Note(NoteReason.CRON_TEXT, f"schedule: {warning}", place)


def notes_on_changes(
    changes: Sequence[ScheduleChange], *, source: str, applied: bool
) -> Iterator[Note]:
    """Note that nothing stays of what a file of this name had: it may be another one."""
    if {change.change for change in changes} == {Change.ADD, Change.DISABLE}:
        gone = [change.name for change in changes if change.change is Change.DISABLE]
        verb = "are" if applied else "would be"
        text = f"all of its former schedules {verb} {say_disabled(gone, source)}"
        yield Note(NoteReason.ALL_REPLACED, text)


def notes_on_queues(shared: Mapping[str, Sequence[str]]) -> Iterator[Note]:
    """Note the queues that several files have schedules on; see `shared_queues`."""
    for queue, sources in shared.items():
        text = f"{say_shared(queue, sources)}: {ONE_FILE_EACH}"
        yield Note(NoteReason.SHARED_QUEUE, text)

"""Jobs files beside each other: what they have in common, and must not.

Apart from what holds a file against the ledger: `cronhare check` asks none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from cronhare.domain.schedules.calendars import CalendarDraft
from cronhare.domain.schedules.clashes import Clash, Holder, clashes, shared_queues
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task


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
    """Find the queues on which several of these files have schedules, with their sources."""
    used = [(draft.runs_on, file.source) for file in files for draft in file.drafts if draft.status]
    return shared_queues(used)


def clashes_among(files: Sequence[FileContent]) -> Iterator[Clash]:
    """Find what a file has in common with those before it, and must not."""
    names, holders = dict[str, str](), list[Holder]()
    for file in files:
        yield from clashes(file.drafts, file.tasks, names=names, holders=holders)
        names = {draft.name: file.source for draft in file.drafts} | names
        holders += [
            Holder(ref=task.ref, source=file.source, place=f"tasks.{task.name}")
            for task in file.tasks
        ]

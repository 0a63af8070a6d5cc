"""What several jobs files on one ledger must not share: schedules' names, tasks' numbers, queues.

Our own workers go by source and name, and never run a task of another file. Rows that people
write, and messages of other programs, know numbers alone; and a worker takes whatever its
queue brings, has one file, and refuses the runs of another.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from ..texts.listing import listed
from .draft import ScheduleDraft
from .task import Task, TaskRef


@attrs.frozen(kw_only=True)
class Holder:
    """A number that is in use: by a task of *source*, seen at *place*."""

    ref: TaskRef
    source: str
    place: str


@attrs.frozen
class Collision:
    """One number, two holders."""

    ref: TaskRef
    ours: str
    theirs: Holder

    def __str__(self) -> str:
        return (
            f"{self.ours}: {self.ref} is also the number of {self.theirs.place} "
            f"of {self.theirs.source}"
        )


@attrs.frozen
class Namesake:
    """A schedule by whose name another source has one, on or off."""

    name: str
    source: str

    def __str__(self) -> str:
        return f"schedules.{self.name}: is the name of a schedule of {self.source}, too"


#: What keeps a file from being applied beside another one.
Clash: TypeAlias = Collision | Namesake


def clashes(
    drafts: Iterable[ScheduleDraft],
    tasks: Iterable[Task],
    *,
    names: Mapping[str, str],
    holders: Iterable[Holder],
) -> tuple[Clash, ...]:
    """Find what a file has in common with others: *names* of their schedules, and their numbers.

    *names* leads to the source of each. One that is off counts as well: its file would be refused
    at its own next `apply`.
    """
    namesakes = (
        Namesake(draft.name, source) for draft in drafts if (source := names.get(draft.name))
    )
    return (*namesakes, *_collisions(tasks, holders))


def _collisions(tasks: Iterable[Task], others: Iterable[Holder]) -> tuple[Collision, ...]:
    """Find the numbers of *tasks* that *others*, of other sources, have as well."""
    holders: dict[TaskRef, Holder] = {}
    for holder in others:
        holders.setdefault(holder.ref, holder)
    return tuple(
        Collision(task.ref, f"tasks.{task.name}", holder)
        for task in tasks
        for holder in filter(None, (holders.get(task.ref),))
    )


def shared_queues(used: Iterable[tuple[str, str]]) -> Mapping[str, Sequence[str]]:
    """Find the queues that more than one source has schedules on, from pairs of both."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for queue, source in used:
        sources[queue].add(source)
    return {queue: sorted(found) for queue, found in sorted(sources.items()) if len(found) > 1}


#: What mends a queue that is shared.
ONE_FILE_EACH = (
    "put their tasks and schedules into one file, or give the schedules of each a queue of its "
    'own, queue = "…", and its workers that queue alone, --queues …'
)


def say_shared(queue: str, sources: Sequence[str]) -> str:
    """Say what comes of a shared queue.

    >>> say_shared("slow", ["jobs.toml", "user.toml"]).partition(":")[0]
    'queue slow has schedules of jobs.toml and user.toml, and a worker has one file'
    """
    whose = f"{', '.join(sources[:-1])} and {sources[-1]}"
    return (
        f"queue {queue} has schedules of {whose}, and a worker has one file: the runs of every "
        "other fail there, for good"
    )


def say_disabled(names: Sequence[str], source: str) -> str:
    """Say what a file has no more, and how two files of one name are told apart.

    >>> say_disabled(["nightly"], "jobs.toml").partition(". ")[0]
    'disabled, for they came from jobs.toml and are not in it: nightly'
    """
    return (
        f"disabled, for they came from {source} and are not in it: {listed(names)}. If another "
        "file of that name has them, give this one a name of its own in its first line: "
        'source = "…"'
    )

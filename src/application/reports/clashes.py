"""What several jobs files on one ledger must not share: schedules' names, tasks' numbers, queues.

Our own workers find a task by source and name, and never run one of another file. Rows written by
hand and messages of other programs have numbers alone. And a worker takes what its queue brings,
but has one file, perhaps an app beside it, and refuses the runs of another.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.texts.words import listed


@attrs.frozen
class Clash:
    """Why a file cannot be applied beside another one: both have a name, or else a number."""

    text: str
    is_of_a_name: bool = True

    def __str__(self) -> str:
        return self.text


def namesake(name: str, source: str, *, what: str = "schedule") -> Clash:
    return Clash(f"{what}s.{name}: is the name of a {what} of {source}, too")


def clashes(
    drafts: Iterable[ScheduleDraft],
    tasks: Iterable[Task],
    *,
    names: Mapping[str, str],
    numbers: Mapping[TaskRef, str],
) -> Iterator[Clash]:
    """Find the names and numbers that a file shares with others.

    *names* maps their schedules to sources, *numbers* those of their tasks to who has them. A
    schedule that is disabled counts: its file would be refused at its own next `apply`.
    """
    for draft in drafts:
        if draft.name in names:
            yield namesake(draft.name, names[draft.name])
    for task in tasks:
        if task.ref in numbers:
            text = f"tasks.{task.name}: {task.ref} is also the number of {numbers[task.ref]}"
            yield Clash(text, is_of_a_name=False)


def shared_queues(used: Iterable[tuple[str, str]]) -> Mapping[str, Sequence[str]]:
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for queue, source in used:
        sources[queue].add(source)
    return {queue: sorted(found) for queue, found in sorted(sources.items()) if len(found) > 1}


def say_shared(queue: str, sources: Sequence[str]) -> str:
    """Say what a shared queue leads to.

    >>> say_shared("slow", ["jobs.toml", "user.toml"]).partition(":")[0]
    'queue slow has schedules of jobs.toml and user.toml, and a worker has one file, or app'
    """
    whose = f"{', '.join(sources[:-1])} and {sources[-1]}"
    return (
        f"queue {queue} has schedules of {whose}, and a worker has one file, or app: the runs of "
        "every other fail there, for good"
    )


def say_disabled(names: Sequence[str], source: str) -> str:
    """Say which schedules a file no longer has, and how to tell apart two files of one name.

    >>> say_disabled(["nightly"], "jobs.toml").partition(". ")[0]
    'disabled, for they came from jobs.toml and are not in it: nightly'
    """
    return (
        f"disabled, for they came from {source} and are not in it: {listed(names)}. If another "
        "file of that name has them, give this one a name of its own in its first line: "
        'source = "…"'
    )

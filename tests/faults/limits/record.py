"""The tasks' own record of when they began and ended, and how many ran at a time."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import attrs

#: An execution's id and a number.
Attempt = tuple[int, int]


@attrs.frozen(kw_only=True)
class Run:
    """What an attempt wrote down of itself; without an end it was killed."""

    name: str
    attempt: Attempt
    begins: datetime
    ends: datetime | None = None


def read_record(path: Path) -> tuple[list[Run], int]:
    """Read the record, and count what is in it twice."""
    begins, ends, twice = dict[Attempt, Run](), dict[Attempt, datetime](), 0
    for line in path.read_text().splitlines():
        seconds, what, name, id_, number = line.split()
        at, attempt = datetime.fromtimestamp(float(seconds), UTC), (int(id_), int(number))
        if what == "begins":
            twice += attempt in begins
            begins[attempt] = Run(name=name, attempt=attempt, begins=at)
        else:
            ends[attempt] = at
    return [attrs.evolve(one, ends=ends.get(one.attempt)) for one in begins.values()], twice


def most_at_once(spans: Iterable[tuple[datetime, datetime]]) -> int:
    """Count how many of some spans of time overlap at most; one that ends begins no overlap."""
    steps = sorted(step for begins, ends in spans for step in ((begins, 1), (ends, -1)))
    most = now = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


def spans_by(
    runs: Collection[Run],
    group: Callable[[Run], str | None],
    given_up: Mapping[Attempt, datetime],
) -> dict[str, list[tuple[datetime, datetime]]]:
    """Give the spans of runs by groups. What was killed keeps its place until it is *given_up*."""
    found = defaultdict[str, list[tuple[datetime, datetime]]](list)
    for run in runs:
        if (name := group(run)) is not None:
            ends = run.ends or given_up.get(run.attempt, run.begins)
            found[name].append((run.begins, max(run.begins, ends)))
    return found

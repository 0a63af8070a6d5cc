"""How many ended runs of a class of tasks are kept (S2.3 in docs/compatibility.md).

A class is one of a jobs file: two files may use one name for two of them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import attrs

from ..texts.printable import echo
from ..texts.words import NAME

#: How many runs may be kept. What is kept of a class must be counted in memory.
KEPT: Final = range(100_000 + 1)

#: What has ended so lately is kept, however much there is: late copies of its message are known.
LATELY: Final = timedelta(hours=1)

_FIELDS: Final = ("done", "failed")
_NAME: Final = re.compile(NAME)


class RetentionInvalid(ValueError):
    """A retention that cannot be; *faults* names everything that is wrong."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        """Join the faults into the message."""
        self.faults = faults
        super().__init__("; ".join(faults))


@attrs.frozen(kw_only=True)
class Keep:
    """How many of what succeeded, and of what failed or was quarantined; None for no such limit."""

    done: int | None = None
    failed: int | None = None

    def over(self, farther: "Keep | None") -> "Keep":
        """Give what counts where *farther* is the retention one step away."""
        other = farther or Keep()
        return Keep(
            done=other.done if self.done is None else self.done,
            failed=other.failed if self.failed is None else self.failed,
        )


@attrs.frozen(kw_only=True)
class ClassRetention:
    """What is kept of a class, as each row of its schedules carries it."""

    task_class: str
    keep: Keep


@attrs.frozen(kw_only=True)
class KeptClass:
    """A class, its schedules, and what is kept of it."""

    schedulers: Sequence[int]
    keep: Keep


def read_keep(table: object) -> Keep:
    """Read `{ done = 100, failed = 500 }`.

    Raises:
        RetentionInvalid: with every fault at once.
    """
    if not isinstance(table, Mapping):
        raise RetentionInvalid(("a table with done and failed is expected",))
    faults = [f"has no {echo(name)}; it has done, failed" for name in table if name not in _FIELDS]
    faults += [
        f"{name}: {echo(table[name])} is not a whole number from 0 to {KEPT[-1]:,}"
        for name in _FIELDS
        if name in table and not _is_count(table[name])
    ]
    if faults:
        raise RetentionInvalid(tuple(faults))
    return Keep(done=table.get("done"), failed=table.get("failed"))


def read_class_retention(value: object) -> ClassRetention:
    """Read `{"class": "emails", "done": 100, "failed": 500}`, as a row has it.

    Raises:
        RetentionInvalid: with every fault at once.
    """
    if not isinstance(value, Mapping):
        raise RetentionInvalid(("an object with class, done and failed is expected",))
    name = value.get("class")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RetentionInvalid((f"class: {echo(name)} is no name of a class",))
    keep = {field: each for field, each in value.items() if field != "class" and each is not None}
    return ClassRetention(task_class=name, keep=read_keep(keep))


def write_class_retention(retention: ClassRetention) -> dict[str, Any]:
    """Write a retention so that `read_class_retention` gives it back."""
    return {"class": retention.task_class, **attrs.asdict(retention.keep)}


def by_class(
    schedules: Iterable[tuple[int, str | None, ClassRetention]],
) -> Sequence[KeptClass]:
    """Put schedules together by their classes; each comes with its id and its source.

    Where rows of one class disagree, as somebody has edited one, the most is kept.
    """
    schedulers: dict[tuple[str | None, str], list[int]] = {}
    kept: dict[tuple[str | None, str], list[Keep]] = {}
    for id_, source, retention in schedules:
        key = source, retention.task_class
        schedulers.setdefault(key, []).append(id_)
        kept.setdefault(key, []).append(retention.keep)
    return [KeptClass(schedulers=ids, keep=_most(kept[key])) for key, ids in schedulers.items()]


def _most(kept: Sequence[Keep]) -> Keep:
    return Keep(
        done=_largest([keep.done for keep in kept]), failed=_largest([keep.failed for keep in kept])
    )


def _largest(limits: Sequence[int | None]) -> int | None:
    """The largest limit; none at all where one row has none."""
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number in KEPT

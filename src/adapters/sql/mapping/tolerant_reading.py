"""Reading rows of our own tables, whatever somebody wrote into them.

SQLite's columns take values of any type, MySQL's any number and any date, and both are open to
people. A cell that cannot be is replaced, and named in the row's *problem*: nothing that reads a
row raises, and its neighbours are read as ever.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final, Protocol

import attrs

from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.domain.messages.nack_count import MOST
from cronhare.domain.texts.echo import echo

from .schedule_columns import LONG_AGO


class RowLike(Protocol):
    """A row of the driver's, or one of `mysql_reading`: a tuple whose fields have names."""

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def __getitem__(self, place: int, /) -> Any: ...  # noqa: ANN401


@attrs.frozen(kw_only=True)
class ColumnRule:
    """What a column may hold, and what stands for anything else."""

    kind: type | tuple[type, ...]
    wanted: str
    stand_in: object
    nullable: bool = False
    allowed: range | None = None
    longest: int | None = None

    def takes(self, kind: type) -> bool:
        """Tell whether a value's type is right. A yes or no is a whole number in databases."""
        return issubclass(kind, self.kind) or (self.nullable and kind is type(None))


def whole(allowed: range, *, nullable: bool = False) -> ColumnRule:
    """Expect a whole number."""
    wanted = f"a whole number, {allowed[0]}-{allowed[-1]}"
    stand_in = None if nullable else max(allowed[0], 0)
    return ColumnRule(
        kind=int, wanted=wanted, stand_in=stand_in, nullable=nullable, allowed=allowed
    )


def text(longest: int | None = None, *, nullable: bool = False, stand_in: str = "") -> ColumnRule:
    """Expect text of so many letters at most."""
    wanted = "text" if longest is None else f"text of at most {longest:,} letters"
    default = None if nullable else stand_in
    return ColumnRule(kind=str, wanted=wanted, stand_in=default, nullable=nullable, longest=longest)


def moment(*, nullable: bool = True) -> ColumnRule:
    """Expect a time."""
    stand_in = None if nullable else LONG_AGO
    return ColumnRule(kind=datetime, wanted="a time", stand_in=stand_in, nullable=nullable)


def number() -> ColumnRule:
    """Expect a number, or nothing."""
    return ColumnRule(kind=(float, int), wanted="a number", stand_in=None, nullable=True)


#: Numbers that a signed column of 32 bits holds, and their next as well.
COUNTS: Final = range(MOST + 1)

#: Those of a column that goes up with every change, and must go up once more.
VERSIONS: Final = range(-(2**31), 2**31 - 1)


#: By its place, the least and the greatest of each number, and the length of each text.
Limits = tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int], ...]]


class TableReader:
    """The columns of one table."""

    def __init__(self, table: str, cells: Mapping[str, ColumnRule]) -> None:
        """*table* is named in what is wrong."""
        self._table = table
        self._cells = cells
        self._limits_of = lru_cache(maxsize=256)(self._judge_types)

    def read(self, row: Any) -> tuple[Any, str | None]:  # noqa: ANN401 - see RowLike
        """Give a row whose cells can be relied on, by their names; and what was wrong with it."""
        return (row, None) if self._is_sound(row, row._fields) else self._mend(row)

    def _is_sound(self, values: Sequence[Any], names: tuple[str, ...]) -> bool:
        limits = self._limits_of(tuple(map(type, values)), names)
        if limits is None:
            return False
        numbers, texts = limits
        for place, least, most in numbers:
            if not least <= values[place] <= most:
                return False
        for place, longest in texts:  # noqa: SIM110 - of each row that is read
            if len(values[place]) > longest:
                return False
        return True

    def _judge_types(self, kinds: tuple[type, ...], names: tuple[str, ...]) -> Limits | None:
        """Give the bounds of what rows of these types hold; None if a type is wrong."""
        known = [(place, self._cells[name]) for place, name in enumerate(names)]
        if not all(cell.takes(kinds[place]) for place, cell in known):
            return None
        held = [(place, cell) for place, cell in known if kinds[place] is not type(None)]
        return (
            tuple((n, each.allowed[0], each.allowed[-1]) for n, each in held if each.allowed),
            tuple((n, each.longest) for n, each in held if each.longest is not None),
        )

    def _mend(self, row: RowLike) -> tuple[Any, str]:
        mended, faults = SimpleNamespace(), []
        for name, value in zip(row._fields, row, strict=True):  # type: ignore[call-overload]
            cell, sound = self._cells[name], self._is_sound((value,), (name,))
            setattr(mended, name, value if sound else cell.stand_in)
            if not sound:
                faults.append(f"{name}: {echo(value)} is not {cell.wanted}")
        return mended, f"{self._table}: {'; '.join(faults)}"


_ANY: Final = range(-LARGEST_ID - 1, LARGEST_ID + 1)
_SIZES: Final = range(LARGEST_ID + 1)

#: Beyond a hundred thousand days a clock is not off, and no duration.
_OFFSETS_MS: Final = range(-(10**13), 10**13)

ATTEMPT: Final = TableReader(
    "ExecutionAttempt",
    {
        "execution_id": whole(_ANY),
        "attempt": whole(_ANY),
        "node": text(),
        "started_at": moment(nullable=False),
        "finished_at": moment(),
        "ending": text(nullable=True),
        "exit_code": whole(_ANY, nullable=True),
        "signal": whole(_ANY, nullable=True),
        "pid": whole(_ANY, nullable=True),
        "error": text(nullable=True),
        "peak_memory": whole(_SIZES, nullable=True),
        "cpu_seconds": number(),
    },
)
OUTPUT: Final = TableReader(
    "AttemptOutput",
    {
        "execution_id": whole(_ANY),
        "attempt": whole(_ANY),
        "stdout_head": text(),
        "stdout_tail": text(),
        "stdout_bytes": whole(_SIZES),
        "stderr_head": text(),
        "stderr_tail": text(),
        "stderr_bytes": whole(_SIZES),
        "as_of": moment(),
    },
)
ARCHIVED: Final = TableReader(
    "FailedTask",
    {
        "id": whole(_ANY),
        "execution_id": whole(_ANY),
        "scheduler_id": whole(_ANY),
        "schedule_name": text(),
        "execution_key": text(),
        "kind": text(),
        "task_type": text(),
        "task_id": whole(_ANY),
        "queue": text(),
        "params": text(stand_in="{}"),
        "failed_at": moment(nullable=False),
        "failed_reason": text(),
        "error": text(nullable=True),
        "attempts": whole(_ANY),
        "retry_count": whole(_ANY),
        "resolved_at": moment(),
        "resolution": text(nullable=True),
        "note": text(nullable=True),
        "source": text(nullable=True),
        "task_name": text(nullable=True),
        "check_at": moment(),
    },
)
NODE: Final = TableReader(
    "SchedulerNode",
    {
        "name": text(),
        "role": text(),
        "host": text(),
        "version": text(),
        "started_at": moment(nullable=False),
        "seen_at": moment(nullable=False),
        "queues": text(),
        "concurrency": whole(_SIZES, nullable=True),
        "running": whole(_SIZES, nullable=True),
        "clock_offset_ms": whole(_OFFSETS_MS),
    },
)

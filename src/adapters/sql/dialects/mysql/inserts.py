"""New executions of a batch, as INSERT ... VALUES: nobody waits for it who inserts others.

MariaDB, and MySQL where it is asked to (`innodb_autoinc_lock_mode` 1), keep the numbers of a table
locked until an INSERT ... SELECT has ended: also while it waits at a gap that somebody holds, and
nobody else can insert into that table. Of VALUES the server knows how many there are, and gives the
numbers away at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from ...mapping.execution_rows import NEW_COLUMNS
from ...schema.tables import executions
from .rows import LARGEST_DOCUMENT, Rows

#: Left out where they are NULL in all rows: each value costs the server time.
_MAY_BE_LEFT_OUT: Final = frozenset(name for name in NEW_COLUMNS if executions.c[name].nullable)

#: A letter has up to four bytes, or two with the driver's escape; a number has not many more.
_BYTES_OF_A_LETTER: Final = 4
_BYTES_OF_ANOTHER: Final = 32


@attrs.frozen
class Insert:
    """A statement and its parameters."""

    text: str
    parameters: dict[str, Any]


def inserts(values: Sequence[tuple[Any, ...]]) -> Iterator[Insert]:
    """Give the statements that insert new executions, whose *values* are of `NEW_COLUMNS`.

    A duplicate updates itself to itself. INSERT IGNORE would swallow every other fault, too, and a
    plain INSERT that fails in a transaction leaves a shared lock, over which two of them deadlock.
    """
    rows = Rows.of(NEW_COLUMNS, values)
    agreed = {
        name: value
        for name, value in rows.agreed.items()
        if value is not None or name not in _MAY_BE_LEFT_OUT
    }
    columns = ", ".join((*agreed, *rows.differing))
    said = [f"%({name})s" for name in agreed]
    for part in _parts(rows, agreed):
        tuples = []
        parameters = dict(agreed)
        for place, row in enumerate(part):
            own = [f"{name}_{place}" for name in rows.differing]
            parameters.update(zip(own, row, strict=True))
            tuples.append(f"({', '.join((*said, *(f'%({name})s' for name in own)))})")
        text = (
            f"INSERT INTO `SchedulerExecution` ({columns}) "  # noqa: S608 - names of our own
            f"VALUES {', '.join(tuples)} ON DUPLICATE KEY UPDATE id = `SchedulerExecution`.id"
        )
        yield Insert(text, parameters)


def _parts(rows: Rows, agreed: dict[str, Any]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Divide rows, so that no statement is much larger than the largest document."""
    said = sum(map(_size, agreed.values()))
    part: list[tuple[Any, ...]] = []
    size = 0
    for row in rows.differences:
        more = said + sum(map(_size, row))
        if part and size + more > LARGEST_DOCUMENT:
            yield part
            part, size = [], 0
        part.append(row)
        size += more
    if part:
        yield part


def _size(value: object) -> int:
    return _BYTES_OF_A_LETTER * len(value) if isinstance(value, str) else _BYTES_OF_ANOTHER

"""Which ended runs a class of tasks keeps no more of: S2.3 in docs/compatibility.md.

A class is found by its schedules, whose rows say what is kept of it: an execution has no column for
it. Where no row says so, this is one statement that finds nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import nlargest
from typing import Any, Final

import attrs
from sqlalchemy import ColumnElement, Select, bindparam, func, select

from cronhare.domain.execution import REPLAYABLE, State
from cronhare.domain.schedules.retention import ClassRetention, KeptClass, by_class

from ..mapping.deletable import AWAITS_A_PERSON, COUNTS, ENDED
from ..mapping.execution_rows import batches
from ..mapping.retentions import LONGEST_RETENTION, read_retention
from ..schema.tables import executions, schedulers
from ..schema.types import UtcDateTime
from ..transactions.database import Database

#: So many schedules are asked for in one statement.
_SCHEDULES: Final = 1_000

_ROWS: Final = select(schedulers.c.id, schedulers.c.source, schedulers.c.retention).where(
    schedulers.c.retention.is_not(None), func.length(schedulers.c.retention) <= LONGEST_RETENTION
)
_DONE: Final = executions.c.state == State.SUCCEEDED.value
_FAILED: Final = executions.c.state.in_([state.value for state in REPLAYABLE])


@attrs.frozen(kw_only=True)
class _Statements:
    """How the newest runs of some schedules are found, and those that are no longer kept."""

    newest: Select[Any]
    count: Select[Any]
    oldest: Select[Any]


def _statements(state: ColumnElement[bool]) -> _Statements:
    ours = state, COUNTS, executions.c.scheduler_id.in_(bindparam("schedulers", expanding=True))
    surplus = (
        *ours,
        executions.c.id <= bindparam("newest_surplus"),
        bindparam("lately", type_=UtcDateTime) > ENDED,
        ~AWAITS_A_PERSON,
    )
    ids = select(executions.c.id)
    return _Statements(
        newest=ids.where(*ours).order_by(executions.c.id.desc()).limit(bindparam("most")),
        count=select(func.count()).select_from(executions).where(*surplus),
        oldest=ids.where(*surplus).order_by(executions.c.id).limit(bindparam("surplus")),
    )


_OF_DONE: Final = _statements(_DONE)
_OF_FAILED: Final = _statements(_FAILED)

#: A statement that finds what is to be deleted, its parameters, and how many it finds in all.
Surplus = tuple[Select[Any], dict[str, Any], int]


def surplus_of_classes(
    database: Database, *, lately: datetime, booted: datetime
) -> Iterator[Surplus]:
    """Find what classes keep no more of; `surplus` is to be added to the parameters."""
    times = {"lately": lately, "booted": booted}
    for kept in _classes(database):
        for statements, most in ((_OF_DONE, kept.keep.done), (_OF_FAILED, kept.keep.failed)):
            if most is not None:
                yield from _surplus(database, statements, kept.schedulers, most, times)


def _classes(database: Database) -> Sequence[KeptClass]:
    with database.read("looking for classes") as connection:
        rows = connection.execute(_ROWS).all()
    return by_class(_readable(rows))


def _readable(rows: Iterable[Any]) -> Iterator[tuple[int, str | None, ClassRetention]]:
    """Leave out rows that cannot be read: the list of schedules says what is wrong with them."""
    for row in rows:
        retention = read_retention(row.retention)
        if isinstance(retention, ClassRetention):
            yield row.id, row.source if isinstance(row.source, str) else None, retention


def _surplus(
    database: Database,
    statements: _Statements,
    schedulers: Sequence[int],
    most: int,
    times: dict[str, Any],
) -> Iterator[Surplus]:
    pieces = list(batches(schedulers, _SCHEDULES))
    newest: list[int] = []
    for piece in pieces:
        asked = {**times, "schedulers": piece, "most": most + 1}
        with database.read("counting what is kept") as connection:
            newest = nlargest(most + 1, [*newest, *connection.scalars(statements.newest, asked)])
    if len(newest) <= most:
        return
    for piece in pieces:
        asked = {**times, "schedulers": piece, "newest_surplus": newest[-1]}
        with database.read("counting what is kept") as connection:
            count: int = connection.execute(statements.count, asked).scalar_one()
        yield statements.oldest, asked, count

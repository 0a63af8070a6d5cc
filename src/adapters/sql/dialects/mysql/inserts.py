"""New executions of a batch, as INSERT ... VALUES: no other INSERT waits for it.

MariaDB, and MySQL where it is asked to (`innodb_autoinc_lock_mode` 1), keep the numbers of a table
locked until an INSERT ... SELECT has ended: also while it waits at a gap that somebody holds, and
nobody else can insert into that table. Of VALUES the server knows how many there are, and gives the
numbers away at once.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import attrs
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.execution import Execution
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.ports.ledger import LedgerUnavailable

from ...dialect import Locked, TransactionRolledBack
from ...mapping.execution_rows import NEW_COLUMNS, new_values
from ...schema.tables import executions
from ...transactions.lock_waits import waits_for_no_lock
from . import errors
from .reading import as_list
from .rows import Rows, parts_of

_NEWEST: Final = select(func.coalesce(func.max(executions.c.id), 0))
_NEWER: Final = (  # as JSON: see `reading`
    "SELECT JSON_ARRAY(id, scheduler_id, execution_key) FROM `SchedulerExecution` WHERE id > %s"
)

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


def insert_executions(connection: Connection, wanted: Sequence[Execution]) -> list[int]:
    """See `Dialect.insert_executions`.

    A newer row with one of our keys that we did not insert was committed meanwhile; the
    transaction is repeated.

    Raises:
        LedgerUnavailable: there is no number left.
    """
    before = connection.scalars(_NEWEST).one()
    if before >= LARGEST_ID:  # MySQL gives it again, to be taken for a key that others claimed
        raise LedgerUnavailable(errors.EXHAUSTED, changed_nothing=True)
    with _numbering():
        inserted = sum(
            connection.exec_driver_sql(insert.text, insert.parameters).rowcount
            for insert in inserts([new_values(one) for one in wanted])
        )
    newer = connection.exec_driver_sql(_NEWER, (before,)).scalars()
    asked = {(one.scheduler_id, one.key) for one in wanted}
    found = {(scheduler_id, key): id_ for id_, scheduler_id, key in map(as_list, newer)}
    ids = {key: id_ for key, id_ in found.items() if key in asked}
    if len(ids) != inserted:
        raise TransactionRolledBack("somebody else claimed the same in this very moment")
    return [ids.pop((one.scheduler_id, one.key), 0) for one in wanted]


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
    smallest = sum(map(_size, agreed.values()))
    for part in parts_of((row, smallest + sum(map(_size, row))) for row in rows.differences):
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


def _size(value: object) -> int:
    return _BYTES_OF_A_LETTER * len(value) if isinstance(value, str) else _BYTES_OF_ANOTHER


@contextmanager
def _numbering() -> Iterator[None]:
    """Have an INSERT repeated that got no number.

    An INSERT of many keeps all others from numbering theirs while it waits for a gap that is held.

    Raises:
        TransactionRolledBack: somebody does. `Locked`, if no lock is to be waited for.
    """
    try:
        yield
    except SQLAlchemyError as error:
        if errors.number_of(error) != errors.NO_NUMBER:
            raise
        text = f"somebody keeps others from inserting into {executions.name} ({error.args[0]})"
        raise (Locked if waits_for_no_lock() else TransactionRolledBack)(
            text, changed_nothing=True
        ) from error

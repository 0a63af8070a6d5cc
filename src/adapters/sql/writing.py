"""What a transition writes; and a row that is refused or locked does not stop its neighbours.

A batch that fails is written again by halves until that row is alone (ADR 15). It is set apart, or
rests for a minute; all others are written in the same call.
"""

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final, Generic, TypeVar

import attrs
import msgspec
from sqlalchemy import ColumnElement, Connection, Integer, Update, bindparam, insert, update

from cronhare.application.logs import say
from cronhare.domain.execution import UNFINISHED, Execution
from cronhare.domain.lifecycle import transitions
from cronhare.domain.lifecycle.archive import Archived, archive
from cronhare.domain.lifecycle.transitions import changes
from cronhare.domain.retries.retry import Quarantine
from cronhare.ports import LedgerOutdated, LedgerRefused, LedgerUnavailable

from .database import Database, repeatable
from .dialect import Locked, StatementFailed, dialect_of
from .tables.executions import BY_IDS, executions_of
from .tables.schedule_columns import write_retry
from .tables.tables import by_id, executions, failed_tasks
from .tables.types import OwnTable

log = logging.getLogger(__name__)

#: An execution before a change and after it.
Change = tuple[Execution, Execution]

#: Numbers that are written as an increment: the row's own may be another.
_GROWING: Final = {"version_by": executions.c.version, "crashes_by": executions.c.crashes}


def write_changes(connection: Connection, changed: Iterable[Change]) -> None:
    """Write what each change changes, and nothing else of a row."""
    by_names: dict[tuple[str, ...], dict[tuple[object, ...], list[int]]] = {}
    for before, after in changed:
        if columns := _columns(before, after):
            alike = by_names.setdefault(tuple(columns), defaultdict(list))
            alike[tuple(columns.values())].append(before.id)
    for names, alike in by_names.items():
        most = max(alike, key=lambda values: len(alike[values]))
        said = dict(zip(names, most, strict=True))
        connection.execute(_update_alike(names), {**said, "ids": alike.pop(most)})
        rest = [
            {**dict(zip(names, values, strict=True)), "changed_id": id_}
            for values, ids in alike.items()
            for id_ in ids
        ]
        if rest:
            dialect_of(connection).update_many(connection, _update_each(names), rest)


def write_fields(connection: Connection, execution: Execution, *fields: str) -> None:
    """Write these fields, whatever the row holds: it may be what could not be read."""
    columns = {field: getattr(execution, field) for field in fields}
    connection.execute(_update_alike(fields), {**columns, "ids": [execution.id]})


def _columns(before: Execution, after: Execution) -> dict[str, Any]:
    columns = changes(before, after)
    if "version" in columns:
        columns["version_by"] = columns.pop("version") - before.version
    if "retry" in columns:
        columns["retry"] = write_retry(after.retry)
    if "crashes" in columns:
        crashes = len(columns.pop("crashes"))
        if crashes:
            columns["crashes_by"] = crashes - len(before.crashes)
        else:
            columns["crashes"] = 0
    return columns


@lru_cache
def _update_alike(names: tuple[str, ...]) -> Update:
    return by_id(_update(names))


@lru_cache
def _update_each(names: tuple[str, ...]) -> Update:
    return _update(names).where(executions.c.id == bindparam("changed_id"))


def _update(names: tuple[str, ...]) -> Update:
    return update(executions).values(dict(map(_assigned, names)))


def _assigned(name: str) -> tuple[str, ColumnElement[Any]]:
    if name in _GROWING:
        column = _GROWING[name]
        return column.name, column + bindparam(name, type_=Integer)
    return name, bindparam(name, type_=executions.c[name].type)


#: Inserts rows of `archive_values`.
ARCHIVE: Final = insert(failed_tasks)

_WRITTEN: Final = [column.name for column in failed_tasks.c if column.name != "id"]
FAILURE: Final = OwnTable(failed_tasks)


def archive_values(archived: Archived) -> dict[str, Any]:
    return {name: getattr(archived, name) for name in _WRITTEN}


def read_archived(rows: Iterable[Any], **unread: Any) -> list[Archived]:  # noqa: ANN401
    """Read the rows that fit.

    They have all columns, or those that are *unread* have these values.
    """
    return [Archived(**unread, **msgspec.structs.asdict(each)) for each in FAILURE.readable(rows)]


Q = TypeVar("Q")
A = TypeVar("A")

#: A statement failed, and the database is there: one row may be the reason.
REFUSED: Final = (LedgerRefused, StatementFailed, LedgerOutdated)

#: So many single rows fail while nothing at all is accepted: after that it is an outage.
MOST_DOUBTS: Final = 5

#: So many seconds single rows wait for locks in one call; the rest is not tried this time.
LONGEST_WAIT: Final = 3.0

#: What `transitions.set_apart` changes. All of it is written: what was read of a broken row may not
#: be what is there.
SET_APART: Final = (
    "state",
    "version",
    "owner",
    "lease_until",
    "next_attempt_at",
    "check_at",
    "held_by",
    "finished_at",
    "last_error",
)


@attrs.frozen
class Written(Generic[A]):
    """What one transaction answers, and whether it *changed* a row: the database accepts some."""

    answers: Sequence[A]
    changed: bool


@attrs.frozen
class _Alone(Generic[Q]):
    """An item that failed alone; without an *error* it was not tried."""

    item: Q
    error: Exception | None = None


def write_each(
    items: Sequence[Q],
    write: Callable[[Sequence[Q]], Written[A]],
    *,
    refused: Callable[[Q, Exception], Sequence[A]],
    locked: Callable[[Q], Sequence[A]],
    untried: Callable[[Q], Sequence[A]] | None = None,
) -> list[A]:
    """Write all *items* in one transaction; after a failure each half in one of its own.

    *write* is that transaction, and can be repeated. *refused* answers for an item that is refused
    alone, or fails alone while another one is accepted; *locked* for one that waits for a lock in
    vain. Once these have waited for long the rest is *untried*, which is answered as *locked* by
    default. The answers come in the order of the items.

    Raises:
        LedgerUnavailable: the ledger is away, or a statement fails and nothing is accepted.
    """
    if not items:
        return []
    halves = _Halves(write)
    try:
        parts = halves.ask(items)
    except LedgerUnavailable as error:
        error.changed_nothing = error.changed_nothing and not halves.changed
        raise
    if halves.doubts and not halves.changed:
        raise halves.doubts[0]
    answers: list[A] = []
    for part in parts:
        match part:
            case Written():
                answers += part.answers
            case _Alone(error=None):
                answers += (untried or locked)(part.item)
            case _Alone(error=Locked()):
                answers += locked(part.item)
            case _Alone(error=Exception() as why):
                answers += refused(part.item, why)
    return answers


def write_executions(
    database: Database,
    items: Sequence[Q],
    write: Callable[[Sequence[Q]], Written[A]],
    now: datetime,
    *,
    id_of: Callable[[Q], int],
    still: Callable[[Q, Execution], bool],
    locked: Callable[[Q], Sequence[A]] = lambda _: (),
) -> list[A]:
    """Write executions by `write_each`; of those that fail alone nothing is answered.

    What is refused is set apart, if it is *still* as it was.
    """

    def refused(item: Q, why: Exception) -> Sequence[A]:
        set_apart(database, id_of(item), str(why), now, still=partial(still, item))
        return ()

    return write_each(items, write, refused=refused, locked=locked)


class _Halves(Generic[Q, A]):
    """Writes a batch by halves. The first half is random: what is not reached now may be next."""

    def __init__(self, write: Callable[[Sequence[Q]], Written[A]]) -> None:
        self.changed = False
        self.doubts: list[LedgerUnavailable] = []
        self._write = write
        self._waited = 0.0

    def ask(self, part: Sequence[Q]) -> list[Written[A] | _Alone[Q]]:
        is_outage = len(self.doubts) >= MOST_DOUBTS and not self.changed
        if is_outage or self._waited > LONGEST_WAIT:
            return [_Alone(one) for one in part]
        began = time.monotonic()
        try:
            written = self._write(part)
        except (*REFUSED, Locked) as error:
            if len(part) == 1:
                if isinstance(error, Locked):
                    self._waited += time.monotonic() - began
                elif isinstance(error, LedgerUnavailable):
                    self.doubts.append(error)
                return [_Alone(part[0], error)]
        else:
            self.changed |= written.changed
            return [written]
        middle = len(part) // 2
        halves = part[:middle], part[middle:]
        found = {place: self.ask(halves[place]) for place in random.sample((0, 1), 2)}
        return [*found[0], *found[1]]


def set_apart(
    database: Database,
    execution_id: int,
    why: str,
    now: datetime,
    *,
    still: Callable[[Execution], bool],
    is_broken: bool = False,
) -> bool:
    """Quarantine a broken execution, or one of which the database refuses something.

    Tells whether it is now. The log calls it broken if *is_broken*, or refused. Only if it is
    *still* what it was then: the refusal may be this replica's own, while another has gone on with
    it. One that is locked, or cannot even be set apart, rests for a minute.
    """

    def rest(why: str) -> None:
        if execution_id not in database.passed_over.at(now):
            _say(execution_id, f"is passed over for a minute: {why}", is_broken=is_broken)
        database.passed_over.note(execution_id, now)

    @repeatable
    def quarantine() -> bool:
        with database.write("setting an execution apart") as connection:
            statement = BY_IDS.with_for_update(skip_locked=True)
            rows: Any = connection.execute(statement, {"ids": [execution_id]})
            found = executions_of(connection, rows)
            if not found:
                rest(f"somebody holds its row: {why}")
            reason = f"the ledger refuses what is to be written: {why}"
            broken = [
                msgspec.structs.replace(one, problem=one.problem or reason)
                for one in found
                if still(one)
            ]
            return bool(set_broken_apart(connection, broken, now))

    try:
        is_apart = quarantine()
    except (*REFUSED, Locked):
        rest(f"it cannot even be quarantined: {why}")
        return False
    if is_apart:
        _say(execution_id, f"is quarantined: {why}", is_broken=is_broken)
    return is_apart


def _say(execution_id: int, what: str, *, is_broken: bool) -> None:
    action = "execution.broken" if is_broken else "execution.refused"
    say(log, logging.ERROR, action, f"Execution {execution_id} {what}", execution=execution_id)


def set_broken_apart(
    connection: Connection, found: Sequence[Execution], now: datetime
) -> Collection[int]:
    """Quarantine the broken ones of *found*, which the caller has locked; give their ids.

    Each gets a row in the archive. Once a person has mended its row, `failed replay` sends it on.
    """
    apart = set[int]()
    for execution in found:
        if execution.problem is None or execution.state not in UNFINISHED:
            continue
        quarantined = transitions.set_apart(execution, execution.problem, now=now)
        write_fields(connection, quarantined, *SET_APART)
        archived = archive(execution, Quarantine(execution.problem), None, now)
        connection.execute(ARCHIVE, archive_values(archived))
        apart.add(execution.id)
    return apart

"""A filter of failures, asked of the archive's columns."""

from collections.abc import Iterable, Iterator

from sqlalchemy import ColumnElement, Table, func, or_

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.failure_filter import FailureFilter
from cronhare.domain.retries.outcome import (
    MESSAGE_BEGINS,
    MESSAGE_ENDS,
    as_in_message,
    mark_of_class,
    mark_of_code,
)
from cronhare.domain.schedules.task import TaskRef

from ..dialect import Dialect
from ..mapping.exactly import exactly
from ..schema.tables import failed_tasks

_ROW = failed_tasks.c


def those_of(which: FailureFilter, dialect: Dialect) -> Iterator[ColumnElement[bool]]:
    """Give the conditions of the rows that a filter takes: see `FailureFilter.takes`."""
    equal = (
        (_ROW.schedule_name, which.schedule),
        (_ROW.task_type, which.type),
        (_ROW.queue, which.queue),
    )
    yield from (exactly(column, wanted) for column, wanted in equal if wanted is not None)
    if which.execution_id is not None:
        yield _ROW.execution_id == which.execution_id
    error_class = None if which.error_class is None else mark_of_class(which.error_class)
    code = None if which.code is None else mark_of_code(which.code)
    marks = (mark for mark in (error_class, code) if mark is not None)
    yield from (dialect.position(_ROW.error, mark) > 0 for mark in marks)
    if which.reason is not None:
        yield or_(
            dialect.position(_ROW.failed_reason, which.reason) > 0, _says(which.reason, dialect)
        )
    if which.task is not None:
        yield or_(*rows_of_task(failed_tasks, which.task, which.numbers))
    if which.kind is not None:
        is_failed = _ROW.kind == State.FAILED.value
        yield is_failed if which.kind is State.FAILED else ~is_failed
    if which.since is not None:
        yield _ROW.failed_at >= which.since
    if which.until is not None:
        yield _ROW.failed_at < which.until
    if which.unresolved:
        yield _ROW.resolution.is_(None)


def _says(part: str, dialect: Dialect) -> ColumnElement[bool]:
    """Ask what `says` tells."""
    begins = dialect.position(_ROW.error, MESSAGE_BEGINS) + len(MESSAGE_BEGINS)
    rest = func.substr(_ROW.error, begins)
    said = as_in_message(part)
    found = dialect.position(rest, said)
    # Nearly none has it anywhere, which is told sooner.
    has_it = dialect.position(_ROW.error, said) > 0
    return has_it & (found > 0) & (found < dialect.position(rest, MESSAGE_ENDS))


def rows_of_task(
    table: Table, task: str, numbers: Iterable[TaskRef]
) -> Iterator[ColumnElement[bool]]:
    """Give the conditions of which each row of a task has one or more: see `TaskRef.is_meant`.

    Each is a range of an index of executions.
    """
    row = table.c
    yield row.task_name == task
    if (ref := TaskRef.read(task)) is not None:
        yield (row.task_type == ref.type) & (row.task_id == ref.id)
    for ref in numbers:
        # Those that have the name, and are found by it as well, keep a list of the newest short.
        is_nameless = func.coalesce(row.task_name, task) == task
        yield (row.task_type == ref.type) & (row.task_id == ref.id) & is_nameless

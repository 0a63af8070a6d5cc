"""A filter of failures, asked of the archive's columns."""

from collections.abc import Iterator

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
from ..schema.tables import failed_tasks

_ROW = failed_tasks.c


def those_of(which: FailureFilter, dialect: Dialect) -> Iterator[ColumnElement[bool]]:
    """Give the conditions of the rows that a filter takes: see `FailureFilter.takes`."""
    equal = (
        (_ROW.execution_id, which.execution_id),
        (_ROW.schedule_name, which.schedule),
        (_ROW.task_type, which.type),
        (_ROW.queue, which.queue),
    )
    yield from (column == wanted for column, wanted in equal if wanted is not None)
    error_class = None if which.error_class is None else mark_of_class(which.error_class)
    code = None if which.code is None else mark_of_code(which.code)
    marks = (mark for mark in (error_class, code) if mark is not None)
    yield from (dialect.position(_ROW.error, mark) > 0 for mark in marks)
    if which.reason is not None:
        yield or_(
            dialect.position(_ROW.failed_reason, which.reason) > 0, _says(which.reason, dialect)
        )
    if which.task is not None:
        yield is_of_task(failed_tasks, which.task)
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


def is_of_task(table: Table, task: str) -> ColumnElement[bool]:
    """Give the condition of the rows of a task: by its name, or its reference."""
    row = table.c
    is_named = row.task_name == task
    if (ref := TaskRef.read(task)) is None:
        return is_named
    return or_(is_named, (row.task_type == ref.type) & (row.task_id == ref.id))

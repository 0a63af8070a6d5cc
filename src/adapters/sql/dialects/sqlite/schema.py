"""SQLite's tables: the types of columns, and the triggers that keep up the times of edits."""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from ...dialect import Columns
from ...tables.types import LENGTH, HandWritten, UtcDateTime


def _check(column: sa.Column[Any]) -> str | None:
    """Look at moments alone: to look at each value would take as long as to write it."""
    is_ours = isinstance(column.type, UtcDateTime) and not isinstance(column.type, HandWritten)
    return f"length({column.name}) = {LENGTH}" if is_ours else None


#: The types are but a hint: each column takes values of any type.
COLUMNS: Final = Columns(
    id=sa.Integer(),  # only an INTEGER PRIMARY KEY is numbered by itself
    moment=sa.String(LENGTH),  # a text of one length, and of a form that our triggers can write
    flag=sa.Boolean(),
    text=sa.Text(),
    string=sa.String,
    reads_moments=False,
    check=_check,
    kept_up=sa.String(LENGTH),
    created_at="''",  # until a trigger fills it: no computed default can be added to a table
    updated_at="''",
    references_schedules=True,
)

_NOW: Final = "strftime('%Y-%m-%d %H:%M:%f', 'now')"  # to the millisecond

# Two edits within one millisecond are told apart by the last three digits; a plan knows an edit
# by inequality alone.
_LATER: Final = f"""
    CASE substr(OLD.updated_at, 1, 23)
        WHEN {_NOW}
        THEN substr(OLD.updated_at, 1, 23)
             || printf('%03d', (CAST(substr(OLD.updated_at, 24, 3) AS INTEGER) + 1) % 1000)
        ELSE {_NOW} || '000'
    END"""

_CREATED: Final = f"""
    CREATE TRIGGER scheduler_created AFTER INSERT ON "Scheduler"
    WHEN NEW.created_at = '' OR NEW.updated_at = ''
    BEGIN
        UPDATE "Scheduler" SET
            created_at = CASE created_at WHEN '' THEN {_NOW} || '000' ELSE created_at END,
            updated_at = CASE updated_at WHEN '' THEN {_NOW} || '000' ELSE updated_at END
        WHERE id = NEW.id;
    END"""  # noqa: S608 - no text from outside
# Our own writes set updated_at, from the ledger's clock: they are left alone.
_UPDATED: Final = f"""
    CREATE TRIGGER scheduler_updated AFTER UPDATE OF @EDITABLE ON "Scheduler"
    WHEN NEW.updated_at IS OLD.updated_at
    BEGIN
        UPDATE "Scheduler" SET updated_at = {_LATER} WHERE id = NEW.id;
    END"""  # noqa: S608 - likewise


def prepare_adoption(connection: sa.Connection) -> None:
    """Whatever a column is declared as, it takes our values."""


def execution_id_type(connection: sa.Connection) -> TypeEngine[Any]:  # noqa: ARG001
    return COLUMNS.id


def create_timestamp_triggers(connection: sa.Connection, editable: Sequence[str]) -> None:
    for statement in (_CREATED, _UPDATED.replace("@EDITABLE", ", ".join(editable), 1)):
        connection.exec_driver_sql(statement)

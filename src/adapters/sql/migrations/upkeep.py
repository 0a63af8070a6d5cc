"""created_at and updated_at of hand-made rows, kept by the database itself."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import TIMESTAMP

from cronhare.adapters.sql.migrations.columns import MOMENT

_NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"  # to the millisecond

# Two edits within one millisecond are told apart by the last three digits; a plan knows an edit
# by inequality alone.
_LATER = f"""
    CASE substr(OLD.updated_at, 1, 23)
        WHEN {_NOW}
        THEN substr(OLD.updated_at, 1, 23)
             || printf('%03d', (CAST(substr(OLD.updated_at, 24, 3) AS INTEGER) + 1) % 1000)
        ELSE {_NOW} || '000'
    END"""

_SQLITE = (
    f"""
    CREATE TRIGGER scheduler_created AFTER INSERT ON "Scheduler"
    WHEN NEW.created_at = '' OR NEW.updated_at = ''
    BEGIN
        UPDATE "Scheduler" SET
            created_at = CASE created_at WHEN '' THEN {_NOW} || '000' ELSE created_at END,
            updated_at = CASE updated_at WHEN '' THEN {_NOW} || '000' ELSE updated_at END
        WHERE id = NEW.id;
    END""",  # noqa: S608 - no text from outside
    # Our own writes set updated_at, from the ledger's clock: they are left alone.
    f"""
    CREATE TRIGGER scheduler_updated AFTER UPDATE ON "Scheduler"
    WHEN NEW.updated_at IS OLD.updated_at
    BEGIN
        UPDATE "Scheduler" SET updated_at = {_LATER} WHERE id = NEW.id;
    END""",  # noqa: S608 - likewise
)

#: An UPDATE of these is an edit; one of `task_name` alone changes nothing that is planned.
_EDITABLE = (
    "schedule, date_time, params, status, stay_alive, description, report_id, worker_id, "
    "reminder_id, user_id, group_id, language_id, name, event_id, system_id, timezone, retry, "
    "misfire_policy, misfire_window_ms, misfire_cap, overlap_policy, timeout_ms, jitter_ms, "
    "starts_at, ends_at, queue, source"
)


# MySQL keeps them up by itself. TIMESTAMP, not DATETIME as everywhere else: it is UTC whatever
# the time zone of the session that edits; an edit hours ahead would keep a schedule from running
# until then. Servers that end it in 2038 have a way to go until this table must change.
_CREATED = sa.text("CURRENT_TIMESTAMP(6)")
_UPDATED = sa.text("CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)")


def kept_up_columns(connection: sa.Connection) -> list[sa.Column[Any]]:
    """Give the two columns, as the database can keep them up."""
    if connection.dialect.name == "mysql":
        moment = TIMESTAMP(fsp=6)
        return [
            sa.Column("created_at", moment, nullable=False, server_default=_CREATED),
            sa.Column("updated_at", moment, nullable=False, server_default=_UPDATED),
        ]
    # Empty until a trigger fills it: SQLite adds no column with a default that is computed.
    return [
        sa.Column("created_at", MOMENT, nullable=False, server_default=""),
        sa.Column("updated_at", MOMENT, nullable=False, server_default=""),
    ]


def keep_up_times(connection: sa.Connection) -> None:
    """Make the triggers, where they are needed."""
    if connection.dialect.name != "sqlite":
        return
    for statement in _SQLITE:
        connection.exec_driver_sql(statement)


def keep_up_updates(connection: sa.Connection) -> None:
    """Let an UPDATE of what is planned by count as an edit, and none of anything else."""
    if connection.dialect.name != "sqlite":
        return
    connection.exec_driver_sql("DROP TRIGGER IF EXISTS scheduler_updated")
    connection.exec_driver_sql(_SQLITE[1].replace("UPDATE ON", f"UPDATE OF {_EDITABLE} ON", 1))

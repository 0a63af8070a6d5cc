"""created_at and updated_at of hand-made rows, kept by the database itself."""

import sqlalchemy as sa

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


def keep_up_times(connection: sa.Connection) -> None:
    """Make the triggers."""
    for statement in _SQLITE:
        connection.exec_driver_sql(statement)

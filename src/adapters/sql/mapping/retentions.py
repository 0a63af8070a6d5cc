"""What is kept of a schedule's class, in a column that people may write into."""

from typing import Final

import msgspec

from cronhare.domain.schedules.retention import (
    ClassRetention,
    read_class_retention,
    write_class_retention,
)
from cronhare.domain.texts.echo import echo

from .schedule_columns import decoded

#: The most characters that are read: ten times a sensible one.
LONGEST_RETENTION: Final = 1_024


def read_retention(value: object) -> ClassRetention | str | None:
    """Read the column, or say what is wrong with it."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        return f"{echo(value)} is not JSON text"
    if len(value) > LONGEST_RETENTION:
        return f"{len(value):,} letters, {LONGEST_RETENTION:,} are allowed"
    try:
        return read_class_retention(decoded(value))
    except ValueError as error:  # of JSON, or of a retention
        return str(error)


def write_retention(retention: ClassRetention | None) -> str | None:
    """Write what is kept as JSON."""
    if retention is None:
        return None
    return msgspec.json.encode(write_class_retention(retention)).decode()

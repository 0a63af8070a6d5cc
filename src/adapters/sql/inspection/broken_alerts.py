"""Rows of alerts that nobody is told of, as `cronhare doctor` sees them."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, select

from ..events.alerts import IS_ALERT, is_sound
from ..schema.tables import alerts

#: Rows that are looked at: more than can hold at once are made by nobody.
MOST_READ: Final = 10_000

_ROWS: Final = select(alerts).where(IS_ALERT).order_by(alerts.c.rule).limit(MOST_READ)


def broken_alerts(connection: Connection) -> Iterator[str]:
    """Give the keys of those that a person spoilt; a key may be no text either."""
    for row in connection.execute(_ROWS):
        if not is_sound(row):
            yield str(row.rule)

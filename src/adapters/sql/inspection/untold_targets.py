"""Targets that were given up, as `cronhare doctor` sees them."""

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Select, and_, bindparam, case, func, or_, select

from cronhare.domain.diagnosis.targets import UntoldTarget
from cronhare.domain.lifecycle.events import UNTOLD, OutboxState
from cronhare.domain.lifecycle.pings import PING

from ..schema.tables import outbox

#: Events that are counted, and targets that are named.
MOST_COUNTED: Final = 10_000
MOST_NAMED: Final = 100

#: Who was tried so often in vain, with one event or several, is named, though more tries come.
FAILING_FROM: Final = 3

_ROWS: Final = (
    select(
        outbox.c.id,
        outbox.c.target,
        outbox.c.source,
        func.coalesce(outbox.c.finished_at, outbox.c.occurred_at).label("at"),
        # Bounded row by row: of numbers that somebody wrote the sum may be none of the server's.
        case(
            (
                and_(
                    outbox.c.state == OutboxState.WAITING.value,
                    outbox.c.tries < FAILING_FROM,
                ),
                outbox.c.tries,
            ),
            else_=FAILING_FROM,
        ).label("tries"),
    )
    .where(
        or_(
            outbox.c.state.in_([each.value for each in UNTOLD]),
            and_(
                outbox.c.state == OutboxState.WAITING.value,
                outbox.c.tries > 0,
                outbox.c.last_error.is_not(None),
            ),
        ),
        outbox.c.event != PING,  # a start is told once, and nobody waits for it
    )
    .limit(MOST_COUNTED)
    .subquery()
)
_UNTOLD: Final[Select[Any]] = (
    select(
        _ROWS.c.target,
        _ROWS.c.source,
        func.count().label("events"),
        func.max(_ROWS.c.at).label("at"),
        func.max(_ROWS.c.id).label("newest"),
    )
    .group_by(_ROWS.c.target, _ROWS.c.source)
    .having(func.sum(_ROWS.c.tries) >= FAILING_FROM)
    .order_by(_ROWS.c.target, _ROWS.c.source)
    .limit(MOST_NAMED)
)
_ERROR: Final[Select[Any]] = select(outbox.c.last_error).where(outbox.c.id == bindparam("newest"))
#: By the index: what was told waits for no next try.
_TOLD_LAST: Final[Select[Any]] = (
    select(outbox.c.finished_at)
    .where(
        outbox.c.state == OutboxState.DELIVERED.value,
        outbox.c.target == bindparam("target"),
        outbox.c.next_try_at.is_(None),
        outbox.c.source == bindparam("source"),
    )
    .order_by(outbox.c.id.desc())
    .limit(1)
)


def untold(connection: Connection) -> Iterator[UntoldTarget]:
    """Name those that were not told, and have not heard of anything since."""
    for row in connection.execute(_UNTOLD).all():
        asked = {"target": row.target, "source": row.source}
        heard_at = connection.scalar(_TOLD_LAST, asked)
        if heard_at is not None and heard_at > row.at:
            continue
        error = connection.scalar(_ERROR, {"newest": row.newest})
        yield UntoldTarget(
            name=row.target,
            source=row.source,
            events=row.events,
            last_at=row.at,
            error=error or None,
        )

"""Pages of alerts: what holds, then what is over, the newest first."""

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select

from cronhare.domain.lifecycle.alert_list import AlertFilter, AlertPlace

from ..mapping.exactly import exactly
from ..schema.tables import alerts

#: Rows that are read at once where a person spoilt some, and a page is not full without them; each
#: time so many times more: every statement sorts all, and there may be thousands on the way. Never
#: more than the last number: what they say is kept until it was looked at.
_READ_ON: Final = 500
_GROWTH: Final = 4
_READ_AT_ONCE: Final = 32_000


def rows_of(
    connection: Connection, which: AlertFilter, after: AlertPlace | None, most: int | None
) -> Iterator[Row[Any]]:
    """Give rows in the order of their places, as long as they are taken; at first read *most*.

    A row that a person spoilt may have no place: how many were read says where to read on.
    """
    for statement in _selects(which, after):
        if most is None:
            yield from connection.execute(statement)
            continue
        begin, count = 0, most
        while rows := connection.execute(statement.offset(begin).limit(count)).all():
            yield from rows
            if len(rows) < count:
                break
            begin, count = begin + count, min(max(count * _GROWTH, _READ_ON), _READ_AT_ONCE)


def _selects(which: AlertFilter, after: AlertPlace | None) -> Iterator[Select[Any]]:
    if after is None or not after.over:
        yield _part(which, after, over=False)
    if which.cleared:
        yield _part(which, after if after is not None and after.over else None, over=True)


def _part(which: AlertFilter, after: AlertPlace | None, *, over: bool) -> Select[Any]:
    at = alerts.c.cleared_at if over else alerts.c.raised_at
    is_over = alerts.c.cleared_at.is_not(None) if over else alerts.c.cleared_at.is_(None)
    found = select(alerts).where(is_over, _of_rules(which))
    if which.schedule is not None:
        found = found.where(exactly(alerts.c.subject, which.schedule), alerts.c.scheduler_id > 0)
    if after is not None:
        later = and_(at == after.at, alerts.c.rule > after.key)
        found = found.where(or_(at < after.at, later))
    return found.order_by(at.desc(), alerts.c.rule)


def _of_rules(which: AlertFilter) -> ColumnElement[bool]:
    """Find rows by the rules that their keys begin with."""
    rules = sorted(which.rules)
    return or_(alerts.c.rule.in_(rules), *(alerts.c.rule.like(f"{rule}:%") for rule in rules))

"""Pages of alerts: what holds, then what is over, the newest first."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select

from cronhare.domain.lifecycle.alert_list import AlertFilter, AlertPlace

from ..mapping.exactly import exactly
from ..schema.tables import alerts


def rows_of(
    connection: Connection, which: AlertFilter, after: AlertPlace | None, most: int | None
) -> list[Row[Any]]:
    """Give rows in the order of their places, *most* of them at most."""
    found: list[Row[Any]] = []
    for statement in _selects(which, after):
        left = None if most is None else most - len(found)
        found += connection.execute(statement.limit(left))
    return found


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

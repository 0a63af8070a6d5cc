"""What an address asks for behind its `?`: read with care, and refused with what is allowed."""

import enum
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TypeVar

from starlette.requests import Request

from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.domain.texts.echo import echo
from cronhare.domain.texts.listing import listed

from ..problems import Problem

C = TypeVar("C", bound=enum.StrEnum)

#: Days of which a page can be asked: a datetime holds the one before and the one after.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9_000, 1, 1, tzinfo=UTC)


def asked_text(request: Request, name: str) -> str | None:
    """Read a text; None if it is empty or not there."""
    return request.query_params.get(name) or None


def asked_choice(request: Request, name: str, default: C) -> C:
    """Read one of a few words.

    Raises:
        Problem: it is none of them.
    """
    text = asked_text(request, name)
    if text is None:
        return default
    kind = type(default)
    for each in kind:
        if each.value == text:
            return each
    raise _refused(name, text, listed([each.value for each in kind]))


def asked_number(request: Request, name: str, allowed: range) -> int | None:
    """Read a whole number; None if it is not there.

    Raises:
        Problem: it is none, or not among those that are allowed.
    """
    text = asked_text(request, name)
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_ID)):
        number = int(text)
        if number in allowed:
            return number
    raise _refused(name, text, f"{allowed[0]} to {allowed[-1]}")


def asked_moment(request: Request, name: str, default: datetime) -> datetime:
    """Read a date, `2026-03-02`, or a moment, `2026-03-02T08:00Z`; without a zone it is UTC.

    Raises:
        Problem: it is none, or too far away.
    """
    text = asked_text(request, name)
    if text is None:
        return default
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _refused(name, text, "a date such as 2026-03-02, or 2026-03-02T08:00Z") from None
    if not _FIRST <= moment <= _LAST:
        raise _refused(name, text, "a date from 1970 to 9000")
    return moment


def whole_day(moment: datetime) -> datetime:
    """Give the begin of a moment's day, in UTC."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


#: From one day to the next, in UTC.
A_DAY = timedelta(days=1)


def _refused(name: str, text: str, allowed: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, f"{name} is {echo(text)}; allowed: {allowed}")

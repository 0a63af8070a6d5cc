"""What an address or a form asks for: read with care, and refused with what is allowed."""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final, TypeVar

from starlette.requests import Request

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.reading import Fault
from cronhare.domain.texts.moments import read_iso
from cronhare.domain.texts.printable import echo, shown
from cronhare.domain.texts.words import hint, listed

from ..bodies import pairs_of, received
from ..problems import Problem

C = TypeVar("C", bound=enum.StrEnum)

MOMENTS: Final = "a date such as 2026-03-02, or 2026-03-02T08:00Z"

#: The numbers that rows can have.
IDS: Final = range(1, LARGEST_ID + 1)

#: Days of which a page can be asked: a datetime holds the one before and the one after.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9_000, 1, 1, tzinfo=UTC)


def refuse_others(request: Request, known: Sequence[str] | None) -> None:
    """Refuse a parameter that is not *known*: passed over, it would list all where some are meant.

    One that is there twice is refused too: it is not known which is meant.

    Raises:
        Problem: with all that are wrong.
    """
    if known is not None:
        names = [name for name, _ in request.query_params.multi_items()]
        if faults := faults_of(names, known):
            raise Problem(HTTPStatus.BAD_REQUEST, "what is asked for has faults", faults=faults)


def faults_of(names: Sequence[str], known: Sequence[str]) -> list[Fault]:
    """Find the fields that are not *known*, and those that are there more than once."""
    unknown = [
        Fault(shown(name), f"is not known here; {hint(name, known)}")
        for name in dict.fromkeys(names)
        if name not in known
    ]
    return [*unknown, *_repeated(names)]


def _repeated(names: Iterable[str]) -> list[Fault]:
    """Find the fields that are there more than once.

    >>> [str(fault) for fault in _repeated(["name", "every", "name"])]
    ['name: is there 2 times, and is to be there once']
    """
    return [
        Fault(shown(name), f"is there {count} times, and is to be there once")
        for name, count in Counter(names).items()
        if count > 1
    ]


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


def asked_among(request: Request, name: str, words: Sequence[str]) -> str | None:
    """Read one of these words; None if it is not there.

    Raises:
        Problem: it is none of them.
    """
    text = asked_text(request, name)
    if text is None or text in words:
        return text
    raise _refused(name, text, listed(words))


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


def number_in_path(request: Request, what: str) -> int:
    """Read the `id` of a path.

    Raises:
        NotFound: it is no number that *what* can have.
    """
    text = request.path_params["id"]
    if text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_ID)):
        number = int(text)
        if number in IDS:
            return number
    raise NotFound(f"there is no {what} {shown(text)}")


def number_behind(prefix: str, text: str | None) -> int | None:
    """Read the number of a row that stands behind a word; None if it does not.

    >>> [number_behind("replay-", text) for text in ("replay-7", "replay-x", "replay-0", "now")]
    [7, None, None, None]
    """
    digits = "" if text is None else text.removeprefix(prefix)
    if digits == text or not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > len(str(LARGEST_ID)) or int(digits) not in IDS:
        return None
    return int(digits)


def asked_moment(request: Request, name: str, default: datetime) -> datetime:
    """Read a date, `2026-03-02`, or a moment, `2026-03-02T08:00Z`; without a zone it is UTC.

    Raises:
        Problem: it is none, or too far away.
    """
    text = asked_text(request, name)
    if text is None:
        return default
    moment = read_moment(text)
    if moment is None:
        raise _refused(name, text, MOMENTS)
    return moment


def read_moment(text: str) -> datetime | None:
    """Read a date or a moment of these millennia; None if it is none.

    >>> str(read_moment("2026-03-02T08:00+01:00"))
    '2026-03-02 07:00:00+00:00'
    """
    try:
        moment = read_iso(text.strip())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _FIRST <= moment <= _LAST else None


def asked_moment_or_none(request: Request, name: str) -> datetime | None:
    """Read a date or a moment; None if it is not there.

    Raises:
        Problem: see `asked_moment`.
    """
    return None if asked_text(request, name) is None else asked_moment(request, name, _FIRST)


def whole_day(moment: datetime) -> datetime:
    """Give the begin of a moment's day, in UTC."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


#: From one day to the next, in UTC.
A_DAY = timedelta(days=1)


def _refused(name: str, text: str, allowed: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, f"{name} is {echo(text)}; allowed: {allowed}")


async def read_form(request: Request, known: Sequence[str]) -> None:
    """Read the fields of a form, for `form_of`; one that is not *known* says what nobody heeds.

    Each is there once: of two it is not known which is meant.

    Raises:
        Problem: it is too large, no form, or has other fields, or one more than once.
    """
    fields = pairs_of(await received(request))
    if faults := faults_of([name for name, _ in fields], known):
        raise Problem(
            HTTPStatus.BAD_REQUEST, "the form has faults; nothing was done", faults=faults
        )
    request.state.form = dict(fields)


def form_of(request: Request) -> Mapping[str, str]:
    """Give the fields of a form, which was read before its handler was called."""
    form: Mapping[str, str] = request.state.form
    return form

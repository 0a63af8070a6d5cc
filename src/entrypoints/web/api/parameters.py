"""Parameters that operations have in common: ids, pages, moments, and the key of a repetition."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import NAMESPACE_URL, UUID, uuid5

from fastapi import Header, Path, Query, Request
from pydantic import BeforeValidator

from cronhare.domain.access import LOCAL
from cronhare.domain.cron.timeline import FIRST_MINUTE, LAST_MINUTE, minute_of, moment_of
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.texts.moments import read_iso

from ..access import actor_of

#: Characters of an Idempotency-Key: a UUID, or whatever else the client has.
LONGEST_KEY: Final = 255

#: Characters of a name that is asked for, and of a part of a text.
LONGEST_TEXT: Final = 255

#: Rows of a page, by default and at most.
ROWS: Final = 100
MOST_ROWS: Final = 1_000

IdempotencyKey = Annotated[
    str | None, Header(min_length=1, max_length=LONGEST_KEY, pattern="^[!-~]+$")
]


def digits(text: object) -> object:
    """Refuse the other forms of a number that the framework takes: one row has one address."""
    if isinstance(text, int):
        return text  # a default
    if not (isinstance(text, str) and text.isascii() and text.isdigit()):
        raise ValueError("a number is written in digits alone")
    return text


def _moment(text: object) -> object:
    """Read a moment with its offset: whose wall time would it be without one?"""
    if not isinstance(text, str):
        return text  # none was given
    try:
        # A plus sign in a query is a blank.
        moment = read_iso(re.sub(r" (\d\d:?\d\d)$", r"+\1", text))
    except ValueError:
        raise ValueError("write it as 2026-03-28T08:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("it has no offset; write 2026-03-28T08:00:00Z")
    first, last = moment_of(FIRST_MINUTE), moment_of(LAST_MINUTE)
    try:
        instant = moment.astimezone(UTC)
        is_possible = FIRST_MINUTE <= minute_of(instant) <= LAST_MINUTE
    except OverflowError:
        is_possible = False
    if not is_possible:
        raise ValueError(f"times are from {first.date()} to {last.date()}")
    return instant


Id = Annotated[int, BeforeValidator(digits), Path(ge=1, le=LARGEST_ID)]
Name = Annotated[str, Path(min_length=1, max_length=LONGEST_TEXT, pattern=r"^[^\x00]*$")]
AfterId = Annotated[
    int | None,
    BeforeValidator(digits),
    Query(ge=0, le=LARGEST_ID, description="the next page: those after this id in the list"),
]
Limit = Annotated[int, BeforeValidator(digits), Query(ge=1, le=MOST_ROWS)]
Moment = Annotated[datetime | None, BeforeValidator(_moment), Query()]
Text = Annotated[str | None, Query(min_length=1, max_length=LONGEST_TEXT, pattern=r"^[^\x00]*$")]
Switch = Annotated[bool | None, Query()]


def named(request: Request, key: str | None) -> UUID | None:
    """Name a request by its Idempotency-Key: a name that fits a row, and tells nothing of it.

    Each token has keys of its own: nobody is answered what another one began.
    """
    if key is None:
        return None
    actor = actor_of(request)
    whose = key if actor.name == LOCAL else f"{actor.name} {key}"  # neither has a blank
    return uuid5(NAMESPACE_URL, f"{request.url.path} {whose}")

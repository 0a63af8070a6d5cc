"""Parameters that operations have in common: ids in a path, and the key of a repetition."""

from typing import Annotated, Final
from uuid import NAMESPACE_URL, UUID, uuid5

from fastapi import Header, Path, Request
from pydantic import BeforeValidator

from cronhare.domain.messages.messages import LARGEST_ID

#: Characters of an Idempotency-Key: a UUID, or whatever else the client has.
LONGEST_KEY: Final = 255

IdempotencyKey = Annotated[
    str | None, Header(min_length=1, max_length=LONGEST_KEY, pattern="^[!-~]+$")
]


def _digits(text: object) -> object:
    """Refuse the other forms of a number that the framework takes: one row has one address."""
    if not (isinstance(text, str) and text.isascii() and text.isdigit()):
        raise ValueError("a number is written in digits alone")
    return text


Id = Annotated[int, BeforeValidator(_digits), Path(ge=1, le=LARGEST_ID)]


def named(request: Request, key: str | None) -> UUID | None:
    """Name a request by its Idempotency-Key: a name that fits a row, and tells nothing of it."""
    return None if key is None else uuid5(NAMESPACE_URL, f"{request.url.path} {key}")

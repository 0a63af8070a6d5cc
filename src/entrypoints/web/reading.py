"""What a request says, read into structs: its path, query and headers, a form, or a JSON body.

The annotations of a struct say what is allowed; `domain/reading` tells all that is wrong at once.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

import attrs
import msgspec
from msgspec import Meta
from starlette.requests import Request

from cronhare.adapters.jobs.reader import beyond_toml
from cronhare.domain.cron.timeline import FIRST_MINUTE, LAST_MINUTE, minute_of, moment_of
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.reading import MOST_FAULTS, Fault, Reads, whole_number
from cronhare.domain.schedules.task import LARGEST_PARAMS
from cronhare.domain.texts.moments import read_iso
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import hint

from .problems import Problem, invalid_request

#: Bytes of a body: params of the largest size, and 64 KiB for all else.
LARGEST_BODY: Final = LARGEST_PARAMS + 64 * 1024

#: Fields of a form, or of a query; the largest form of ours has some forty.
MOST_FIELDS: Final = 200

#: Characters of a name that is asked for, and of a part of a text.
LONGEST_TEXT: Final = 255

#: Rows of a page, by default and at most.
ROWS: Final = 100
MOST_ROWS: Final = 1_000

#: Characters of a number in a query: those of any number in a row.
_LONGEST_NUMBER: Final = len(str(LARGEST_ID))

#: The zone of times without an offset: readers of the page have chosen one, programs have none.
ZONE: ContextVar[ZoneInfo | None] = ContextVar("ZONE", default=None)


def described(text: str) -> Meta:
    return Meta(extra_json_schema={"description": text})


def letters(pattern: str, said: str) -> Meta:
    said = f"1-{LONGEST_TEXT} letters{said}"
    return Meta(min_length=1, max_length=LONGEST_TEXT, pattern=pattern, description=said)


def read_time(text: str) -> datetime:
    """Read a moment with its offset; one without is a time of the reader's zone.

    Raises:
        ValueError: it is none, or nobody has chosen a zone.
    """
    try:
        # A plus sign in a query is a blank.
        moment = read_iso(re.sub(r" (\d\d:?\d\d)$", r"+\1", text))
    except ValueError:
        raise ValueError("write it as 2026-03-28T08:00:00Z") from None
    if moment.tzinfo is None and ZONE.get() is None:
        raise ValueError("it has no offset; write 2026-03-28T08:00:00Z")
    first, last = moment_of(FIRST_MINUTE), moment_of(LAST_MINUTE)
    try:
        instant = moment.replace(tzinfo=moment.tzinfo or ZONE.get()).astimezone(UTC)
        is_possible = FIRST_MINUTE <= minute_of(instant) <= LAST_MINUTE
    except OverflowError:
        is_possible = False
    if not is_possible:
        raise ValueError(f"times are from {first.date()} to {last.date()}")
    return instant


Id = Annotated[int, whole_number(range(1, LARGEST_ID + 1))]
AfterId = Annotated[
    int,
    whole_number(range(LARGEST_ID + 1)),
    described("the next page: those after this id in the list"),
]
Limit = Annotated[int, whole_number(range(1, MOST_ROWS + 1))]
Text = Annotated[str, letters(r"^[^\x00]*$", ", without NUL")]
#: A name that is a part of a path.
Named = Annotated[str, letters(r"^[^\x00/]+$", ", without NUL and slash")]
# What is read has another type than what is written, which `Annotated` names.
if TYPE_CHECKING:
    Moment = datetime
else:
    Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"}), Reads(read_time)]


@attrs.frozen(kw_only=True)
class Page:
    """A page of what has numbers."""

    after: AfterId | None = None
    limit: Limit = ROWS


@attrs.frozen(kw_only=True)
class Nothing:
    """There is nothing to say."""


async def received(request: Request) -> bytes:
    """Receive a body. Raises Problem: it is too large."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise too_large()
    return bytes(body)


def too_large() -> Problem:
    detail = f"the body is to have at most {LARGEST_BODY:,} bytes"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)


def pairs_of(text: bytes) -> list[tuple[str, str]]:
    """Read a query, or a form. Raises Problem: it is none."""
    try:
        return parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:  # that it is no UTF-8, among others
        detail = f"this is no form: it has over {MOST_FIELDS} fields, or is no UTF-8"
        raise Problem(HTTPStatus.BAD_REQUEST, detail) from error


def values_of(
    pairs: Iterable[tuple[str, str]], kinds: Mapping[str, Any], faults: list[Fault]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in pairs:
        kind = kinds.get(name)
        if kind is None:
            if name not in values:
                told = f"is not known here; {hint(name, [*kinds])}"
                faults.append(Fault(shown(name), told))
        elif list in {get_origin(each) for each in _parts(kind)}:
            values.setdefault(name, []).append(text)
        elif name in values:
            faults.append(Fault(name, "is there several times"))
        else:
            values[name] = parsed(kind, text)
    return values


def parsed(kind: Any, text: str) -> Any:  # noqa: ANN401 - any annotation
    """Read a number or a switch; what is none is told with what is allowed.

    A whole number is written in ASCII's digits alone: one row has one address.
    """
    kinds = {*_parts(kind)}
    if bool in kinds:
        return {"true": True, "false": False}.get(text, text)
    if float in kinds:
        return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text, re.ASCII) else text
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if int in kinds and is_number else text


def _parts(kind: Any) -> Iterator[Any]:  # noqa: ANN401 - any annotation
    yield kind
    if get_origin(kind) is not list:
        for part in get_args(kind):
            yield from _parts(part)


def read_object(body: bytes, faults: list[Fault], *, may_be_empty: bool = False) -> dict[str, Any]:
    """Read a JSON object; values beyond the bounds of a jobs file are left out, with their faults.

    No body at all is an empty object where it *may_be_empty*.

    Raises:
        Problem: it is no JSON object.
    """
    content = {} if may_be_empty and not body else decoded(body)
    if not isinstance(content, dict):
        raise Problem(HTTPStatus.BAD_REQUEST, "the body is to be a JSON object")
    for name, value in list(content.items()):
        beyond = beyond_bounds(name, value)
        faults += beyond
        if len(faults) > MOST_FAULTS:
            raise invalid_request(faults)  # more would not be told, whatever else is wrong
        if beyond:
            del content[name]
    return content


def beyond_bounds(name: str, value: object) -> list[Fault]:
    """Find what lies beyond the bounds of a jobs file: one more than are told, at most."""
    found = islice(beyond_toml({name: value}), MOST_FAULTS + 1)
    return [Fault("".join(path)[1:], problem) for path, problem in found]


def decoded(body: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON. Raises Problem: it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem = (
            "lies in too many others" if isinstance(error, RecursionError) else shown(str(error))
        )
        raise Problem(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {problem}") from error


def digest_of_object(content: Mapping[str, Any]) -> str:
    """Tell a body from others, however it is spaced and in whatever order its members are."""
    said = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()

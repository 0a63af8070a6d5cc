"""The body of a request: bounded, in time too, and strict JSON."""

import hashlib
import json
from collections.abc import Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from cronhare.adapters.jobs.reader import beyond_toml
from cronhare.domain.reading import MOST_FAULTS, Fault
from cronhare.domain.schedules.task import LARGEST_PARAMS
from cronhare.domain.texts.printable import shown

from .problems import Problem, invalid_request

#: Bytes of a body: params of the largest size, and 64 KiB for all else.
LARGEST_BODY: Final = LARGEST_PARAMS + 64 * 1024

#: Fields of a form, or of a query; the largest form of ours has some forty.
MOST_FIELDS: Final = 200


async def received(request: Request) -> bytes:
    """Receive a body.

    Raises:
        Problem: it is too large.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise too_large()
    return bytes(body)


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


def pairs_of(text: bytes) -> list[tuple[str, str]]:
    """Read a query, or a form.

    Raises:
        Problem: it is none.
    """
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


def digest_of_object(content: Mapping[str, Any]) -> str:
    """Tell a body from others, however it is spaced and in whatever order its members are."""
    said = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()


def beyond_bounds(name: str, value: object) -> list[Fault]:
    """Find what lies beyond the bounds of a jobs file: one more than are told, at most."""
    found = islice(beyond_toml({name: value}), MOST_FAULTS + 1)
    return [Fault("".join(path)[1:], problem) for path, problem in found]


def too_large() -> Problem:
    """Say that a body is too large."""
    detail = f"the body is to have at most {LARGEST_BODY:,} bytes"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)


def decoded(body: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON in which no name stands twice.

    Raises:
        Problem: it is no JSON.
    """
    try:
        content = msgspec.json.decode(body)
        # It keeps the last of several members with one name, and what else reads this the first.
        json.loads(body, object_pairs_hook=_without_repetition)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problem = (
            "lies in too many others" if isinstance(error, RecursionError) else shown(str(error))
        )
        raise Problem(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {problem}") from error
    return content


def _without_repetition(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict[str, Any]()
    for name, value in members:
        if name in found:
            raise ValueError(f"{shown(name)} is there twice")
        found[name] = value
    return found

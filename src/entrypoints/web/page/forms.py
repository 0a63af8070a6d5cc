"""What a form sends: bounded, in size and in number of its fields, and strict UTF-8."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from ..bodies import LARGEST_BODY, too_large
from ..problems import Problem
from .asked import faults_of

#: Fields of a form; the largest of ours has some forty.
MOST_FIELDS: Final = 200


async def read_form(request: Request, known: Sequence[str]) -> None:
    """Read the fields of a form, for `form_of`; one that is not *known* says what nobody heeds.

    Each is there once: of two it is not known which is meant.

    Raises:
        Problem: it is too large, no form, or has other fields, or one more than once.
    """
    fields = _decoded(await _body(request))
    if faults := faults_of([name for name, _ in fields], known):
        raise Problem(
            HTTPStatus.BAD_REQUEST, "the form has faults; nothing was done", faults=faults
        )
    request.state.form = dict(fields)


def form_of(request: Request) -> Mapping[str, str]:
    """Give the fields of a form, which was read before its handler was called."""
    form: Mapping[str, str] = request.state.form
    return form


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise too_large()
    return bytes(body)


def _decoded(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:  # that it is no UTF-8, among others
        detail = f"the body is no form: it has over {MOST_FIELDS} fields, or is no UTF-8"
        raise Problem(HTTPStatus.BAD_REQUEST, detail) from error

"""Bodies of actions: read as the tables of a jobs file are, with every fault at once."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import attrs
from fastapi import Request

from cronhare.domain.reading import Fault, read_table

from ..bodies import read_object
from ..problems import invalid_request

T = TypeVar("T", bound=attrs.AttrsInstance)


async def read_body(
    kind: type[T], request: Request, *, may_be_empty: bool = True
) -> tuple[T, Mapping[str, Any]]:
    """Read a body as a value, and as what was sent. What is null counts as not given.

    Raises:
        Problem: with every fault at once.
    """
    faults: list[Fault] = []
    content = await read_object(request, faults, may_be_empty=may_be_empty)
    given = {name: value for name, value in content.items() if value is not None}
    body = read_table(kind, given, faults)
    if faults:
        raise invalid_request(faults)
    return body, content


#: See `Pacing`, and `ReplayOrder` for the key.
_RULES: Final = ("rate", "jitter", "at_once", "canary", "attempts", "key")


def pacing(body: object, content: Mapping[str, Any], *, author: str) -> dict[str, Any]:
    """Give the rules that a body says; the others have their defaults.

    `stop_at` may be null, which is never.
    """
    given = {name: getattr(body, name, None) for name in _RULES}
    rules = {name: value for name, value in given.items() if value is not None}
    if "stop_at" in content:
        rules["stop_at"] = getattr(body, "stop_at", None)
    return {**rules, "author": author}

"""Bodies of actions: read as the tables of a jobs file are, with every fault at once."""

from collections.abc import Mapping
from typing import Any, TypeVar

import attrs
from fastapi import Request

from cronhare.adapters.jobs.tables import read_table
from cronhare.domain.schedules.draft import Fault

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

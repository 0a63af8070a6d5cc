"""How an operation is declared: who may ask it, what it takes and gives, and what it refuses."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from fastapi import Response
from fastapi.routing import APIRoute

from cronhare.domain.access import Scope

from .. import problems
from ..access import needs

#: Where the description of a value is found in that of the API.
REF: Final = "#/components/schemas/{name}"

#: What every operation may answer instead: a page of another site asks, or one that may not; it is
#: not this host that is meant; a parameter is none; the ledger is away.
ALWAYS: Final = (403, 421, 422, 503)


class Operation(APIRoute):
    """An operation, and the house's own values that its description names."""

    def __init__(self, *, takes: type | None, gives: type | None, **declared: Any) -> None:  # noqa: ANN401
        """*takes* is what its body says, *gives* what it answers; the rest is of the framework."""
        self.takes, self.gives = takes, gives
        super().__init__(**declared)


def operation(
    method: str,
    path: str,
    endpoint: Callable[..., Coroutine[Any, Any, Response]],
    *,
    scope: Scope,
    what: str,
    status: int = 200,
    takes: type | None = None,
    gives: type | None = None,
    refuses: tuple[int, ...] = (),
) -> Operation:
    """Declare an operation.

    *what* is said of its answer, whose status that is. It *refuses* with these, and with `ALWAYS`.
    """
    described: dict[str, Any] = {"description": what}
    if gives is not None:
        described["content"] = {"application/json": {"schema": _schema_of(gives)}}
    extra: dict[str, Any] = {"x-scope": scope.word}
    if takes is not None:
        content = {"application/json": {"schema": _schema_of(takes)}}
        extra["requestBody"] = {"required": True, "content": content}
        refuses = (*refuses, 400, 413, 415)
    return Operation(
        path=path,
        endpoint=endpoint,
        methods=[method],
        status_code=status,
        takes=takes,
        gives=gives,
        dependencies=[needs(scope)],
        responses={status: described, **_refusals(refuses)},
        openapi_extra=extra,
    )


def _refusals(statuses: tuple[int, ...]) -> Mapping[int, Any]:
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}
    refused = {"description": "a problem", "content": content}
    return dict.fromkeys(sorted({*statuses, *ALWAYS}), refused)


def _schema_of(kind: type) -> dict[str, Any]:
    return {"$ref": REF.format(name=kind.__name__)}

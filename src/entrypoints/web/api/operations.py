"""How an operation is declared: who may ask it, what it takes and gives, and what it refuses."""

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final, get_args, get_origin

import attrs
from fastapi import Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match, Route

from cronhare.domain.access import Scope
from cronhare.domain.reading import Fault
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import hint

from .. import problems
from ..access import needs
from ..problems import MEDIA_TYPE, Problem, invalid_request

#: Where the description of a value is found in that of the API.
REF: Final = "#/components/schemas/{name}"

#: What every operation may answer instead: it is not known who asks; a page of another site does,
#: or one that may not; it is not this host that is meant; a parameter is none; too many tokens were
#: tried; no such answer is taken; the ledger is away.
ALWAYS: Final = (401, 403, 406, 421, 422, 429, 503)

Endpoint = Callable[..., Coroutine[Any, Any, Response]]


class Operation(APIRoute):
    """An operation, and the house's own values that its description names."""

    def __init__(
        self,
        *,
        takes: type[attrs.AttrsInstance] | None,
        gives: tuple[type, ...],
        **declared: Any,  # noqa: ANN401
    ) -> None:
        """*takes* is what its body says, *gives* what it answers; the rest is of the framework."""
        self.takes, self.gives = takes, tuple(kind for kind in gives if kind is not str)
        self.is_text = str in gives
        super().__init__(**declared)
        #: Its parameters in the query, and whether each may be repeated.
        self.asked = {
            field.alias: _is_list(field.field_info.annotation)
            for dependant in (self.dependant, *self.dependant.dependencies)
            for field in dependant.query_params
        }


def operation(
    method: str,
    path: str,
    endpoint: Endpoint,
    *,
    scope: Scope,
    what: str,
    status: int = 200,
    takes: type[attrs.AttrsInstance] | None = None,
    may_be_empty: bool = False,
    gives: type | None = None,
    many: bool = False,
    is_tagged: bool = False,
    refuses: tuple[int, ...] = (),
    also: Mapping[int, tuple[str, type]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Operation:
    """Declare an operation.

    *takes* is what a body says, which *may_be_empty*; it *gives* one of these, or *many*. *what* is
    said of that answer, whose status that is, and of its *headers* by their names; *also* has what
    it may answer as well. It *refuses* with these, and with `ALWAYS`. Of an answer that *is_tagged*
    one may ask whether it is still so.
    """
    answers = {status: _described(what, gives, many=many)}
    answers |= {other: _described(said, kind) for other, (said, kind) in (also or {}).items()}
    if headers is not None:
        text = {"type": "string"}
        answers[status]["headers"] = {
            name: {"description": said, "schema": text} for name, said in headers.items()
        }
    if is_tagged:
        answers[304] = {"description": "it is as the ETag in If-None-Match has it"}
    extra: dict[str, Any] = {"x-scope": scope.word}
    if takes is not None:
        content = {"application/json": {"schema": _schema_of(takes)}}
        extra["requestBody"] = {"required": not may_be_empty, "content": content}
        refuses = (*refuses, 400, 413, 415)
    given = (gives, *(kind for _, kind in (also or {}).values()))
    return Operation(
        path=path,
        endpoint=endpoint,
        methods=[method],
        status_code=status,
        takes=takes,
        gives=tuple(kind for kind in given if kind is not None),
        dependencies=[needs(scope), Depends(_only_known)],
        responses={**answers, **_refusals(refuses)},
        openapi_extra=extra,
    )


def _described(what: str, gives: type | None, *, many: bool = False) -> dict[str, Any]:
    if gives is None:
        return {"description": what}
    if gives is str:
        return {"description": what, "content": {"text/plain": {"schema": {"type": "string"}}}}
    schema = _schema_of(gives)
    content = {"schema": {"type": "array", "items": schema} if many else schema}
    return {"description": what, "content": {"application/json": content}}


def _refusals(statuses: tuple[int, ...]) -> Mapping[int, Any]:
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}
    refused = {"description": "a problem", "content": content}
    return dict.fromkeys(sorted({*statuses, *ALWAYS}), refused)


def _schema_of(kind: type) -> dict[str, Any]:
    return {"$ref": REF.format(name=kind.__name__)}


def _is_list(annotation: object) -> bool:
    return any(get_origin(each) is list for each in (annotation, *get_args(annotation)))


async def _only_known(request: Request) -> None:
    """Refuse a parameter that there is not: a typing error would ask for everything.

    And whoever takes no answer of that kind.
    """
    route: Operation = request.scope["route"]
    refuse_unless_acceptable(request, "text/plain" if route.is_text else "application/json")
    asked: Mapping[str, bool] = route.asked
    faults = []
    for name in dict.fromkeys(request.query_params):
        if name not in asked:
            faults.append(Fault(shown(name), f"is not known here; {hint(name, [*asked])}"))
        elif not asked[name] and len(request.query_params.getlist(name)) > 1:
            faults.append(Fault(name, "is there several times"))
    if faults:
        raise invalid_request(faults)


def refuse_unless_acceptable(request: Request, given: str) -> None:
    """Refuse a request that takes neither what its operation gives, nor a problem.

    Raises:
        Problem: with what it gives.
    """
    accepted = ",".join(request.headers.getlist("accept")).lower()
    ranges = {each.partition(";")[0].strip() for each in accepted.split(",")} - {""}
    possible = {"*/*", given, f"{given.partition('/')[0]}/*", MEDIA_TYPE}
    if ranges and not ranges & possible:
        raise Problem(HTTPStatus.NOT_ACCEPTABLE, f"the answer is {given}, and Accept has it not")


def methods_of(app: FastAPI, request: Request) -> str:
    """List the methods that the path of a request has, whichever route each is of."""
    routes = [each for each in app.router.routes if isinstance(each, Route)]
    there = [
        each.methods or () for each in routes if each.matches(request.scope)[0] is not Match.NONE
    ]
    return ", ".join(sorted({method for methods in there for method in methods}))

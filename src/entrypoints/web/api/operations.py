"""An operation of the API: its declaration, its parameters, its body and its answer."""

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin
from uuid import NAMESPACE_URL, UUID, uuid5

import attrs
from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import BeforeValidator
from starlette.routing import Match, Route

from cronhare.domain.access import LOCAL, Scope
from cronhare.domain.cron.timeline import FIRST_MINUTE, LAST_MINUTE, minute_of, moment_of
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.reading import Fault, read_table
from cronhare.domain.texts.moments import read_iso
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import hint

from ...json_text import as_json
from .. import problems
from ..access import actor_of, needs
from ..asking import Deferred
from ..bodies import read_object
from ..problems import MEDIA_TYPE, Problem, invalid_request

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


def as_answer(view: Any, status: int = 200, **headers: str) -> Response:  # noqa: ANN401 - any view
    """Answer with a view, or several. A header's name has underscores for its dashes."""
    return Deferred(partial(_made, view, status, _named(headers)))


def as_resource(request: Request, view: Any, status: int = 200) -> Response:  # noqa: ANN401
    """Answer with a view and its tag; who has seen that already is told so, and no more."""
    return Deferred(partial(_tagged, request, view, status))


def as_text(
    request: Request, make: Callable[[], str], *, after: object, **headers: str
) -> Response:
    """Answer with a text, and a link to what comes *after* it, if anything may come."""
    named = _named(headers) | _link(request, after)

    def made() -> Response:
        text = make().encode(errors="replace")
        return Response(text, headers=named, media_type="text/plain; charset=utf-8")

    return Deferred(made)


def as_page(
    request: Request,
    found: Any,  # noqa: ANN401 - as above
    *,
    after: object,
    **headers: str,
) -> Response:
    """Answer with a page, and a link to the next one, which is of what comes *after* that."""
    return Deferred(partial(_made, found, 200, _named(headers) | _link(request, after)))


def last_id(found: Sequence[Any], *, limit: int) -> int | None:
    """Give the id after which a next page begins, if there may be one."""
    return found[-1].id if len(found) == limit else None


def _link(request: Request, after: object) -> dict[str, str]:
    """Link to what comes after, with all else that was asked for."""
    if after is None:
        return {}
    query = request.url.include_query_params(after=after).query
    return {"Link": f'<{request.url.path}?{query}>; rel="next"'}


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _made(view: Any, status: int, headers: Mapping[str, str]) -> Response:  # noqa: ANN401 - as above
    return Response(_json(view), status, headers=headers, media_type="application/json")


def _json(view: Any) -> bytes:  # noqa: ANN401 - as above
    """Write one after the other: a thread keeps the interpreter while it writes a text."""
    if isinstance(view, (list, tuple)):
        return b"[" + b", ".join(map(_json, view)) + b"]"
    return as_json(view, encode=str).encode()


def _tagged(request: Request, view: Any, status: int) -> Response:  # noqa: ANN401 - as above
    answer = _made(view, status, {})
    answer.headers["ETag"] = tag = f'"{blake2b(answer.body, digest_size=12).hexdigest()}"'
    seen = ",".join(request.headers.getlist("if-none-match"))
    if request.method == "GET" and tag in [
        each.strip().removeprefix("W/") for each in seen.split(",")
    ]:
        return Response(status_code=304, headers={"ETag": tag})
    return answer


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
    scope: Scope = Scope.READ,
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
    it may answer as well. What changes anything says its *scope*. It *refuses* with these, and with
    `ALWAYS`. Of an answer that *is_tagged* one may ask whether it is still so.
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

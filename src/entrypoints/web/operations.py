"""An operation: declared once, by a signature; read, asked and answered in one thread.

The function below `reads`, `operates` or `administers` is given what its parameters are called:
`query` and `body` are read as the classes that annotate them, `call` is the request besides, `key`,
`if_match` and `if_none_match` are its headers, and all else stands in the path. It gives a `Reply`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from hashlib import blake2b
from http import HTTPStatus
from typing import Annotated, Any, Final, Generic, TypeVar, get_args, get_type_hints
from urllib.parse import quote, urlencode
from uuid import NAMESPACE_URL, UUID, uuid5

import attrs
import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cronhare.domain.access import LOCAL, Actor, Scope
from cronhare.domain.reading import Fault, read_table

from ..container import Container
from ..json_text import as_json
from .access import actor_of, need
from .asking import Asker
from .problems import MEDIA_TYPE, Problem, invalid_request
from .reading import Nothing, described, letters, pairs_of, parsed, read_object, received, values_of

T = TypeVar("T")

#: The headers that operations read, by what their functions call them.
_HEADERS: Final[Mapping[str, tuple[str, Any]]] = {
    "key": ("idempotency-key", Annotated[str, letters("^[!-~]+$", " of ASCII, no blanks")]),
    "if_match": (
        "if-match",
        Annotated[
            str,
            Meta(min_length=1, description="an ETag, or *"),
            described("the ETag that was seen, or *"),
        ],
    ),
    "if_none_match": (
        "if-none-match",
        Annotated[str, Meta(pattern=r"^\*$", description="*"), described("* to create alone")],
    ),
}


@attrs.frozen(kw_only=True)
class Call:
    """What a request says besides: who asks, and its body as it was sent.

    Who reads that by hand tells its *faults* with those that are found before.
    """

    request: Request
    content: Mapping[str, Any]
    faults: list[Fault]

    @property
    def actor(self) -> Actor:
        return actor_of(self.request)

    @cached_property
    def now(self) -> datetime:
        container: Container = self.request.app.state.asker.container
        return container.ledger_time().now()


@attrs.frozen
class Reply(Generic[T]):
    """An answer. *after* is where the next page begins, if there may be one."""

    value: T
    status: int | None = None
    after: object = None
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], kw_only=True)


def last_id(found: Sequence[Any], *, limit: int) -> int | None:
    return found[-1].id if len(found) == limit else None


F = TypeVar("F", bound=Callable[..., Any])


@attrs.frozen
class operation:  # noqa: N801 - it decorates
    """Declares that the function below answers *method* at *path*, and what comes of it.

    *what* is said of the answer, whose *status* that is, and of its *headers* by their names;
    *also* has what it may answer as well. A form or a JSON object *needs_body*, or may be left out.
    Of an answer that *is_tagged* one may ask whether it is still so. It *refuses* with these, with
    404 for what its path names, and with `ALWAYS`. What it *takes* and *gives* the signature of the
    function says, or else is said here.
    """

    method: str
    path: str
    what: str = ""
    scope: Scope = attrs.field(kw_only=True)
    status: int = attrs.field(default=200, kw_only=True)
    takes: type[attrs.AttrsInstance] | None = attrs.field(default=None, kw_only=True)
    gives: Any = attrs.field(default=None, kw_only=True)  # a type
    needs_body: bool = attrs.field(default=False, kw_only=True)
    is_tagged: bool = attrs.field(default=False, kw_only=True)
    refuses: tuple[int, ...] = attrs.field(default=(), kw_only=True)
    also: Mapping[int, tuple[str, type]] = attrs.field(factory=dict, kw_only=True)
    headers: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)

    def __call__(self, ask: F) -> F:
        vars(ask)["declared"] = self
        return ask


reads = partial(operation, "GET", scope=Scope.READ)
operates = partial(operation, "POST", scope=Scope.OPERATE)
administers = partial(operation, scope=Scope.ADMIN)


class Resource:
    """Operations that belong together: its methods that are declared."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._container = asker.container

    def at(self, path: str) -> str:
        return path


def operations_of(resource: Resource) -> Iterator["Operation"]:
    for declared, ask in declared_by(resource):
        yield Operation(attrs.evolve(declared, path=resource.at(declared.path)), ask)


def declared_by(resource: Resource) -> Iterator[tuple[Any, Callable[..., Any]]]:
    names = dict.fromkeys(name for kind in reversed(type(resource).mro()) for name in vars(kind))
    for ask in (getattr(resource, name) for name in names):
        if (declared := getattr(ask, "declared", None)) is not None:
            yield declared, ask


class Operation(Route):
    """What can be asked for: by whom, with what, and what comes of it."""

    def __init__(self, declared: operation, ask: Callable[..., Any]) -> None:
        super().__init__(declared.path, self._answer, methods=[declared.method], name=ask.__name__)
        self.methods = {declared.method}  # HEAD is not among them
        self.declared, self.ask = declared, ask
        hints = get_type_hints(ask, include_extras=True)
        self.gives = declared.gives or next(iter(get_args(hints.pop("return"))), None)
        self.takes: Mapping[str, Any] = hints
        self.query: type[Any] | None = hints.get("query")
        no_body = Nothing if declared.method == "POST" else None
        self.body: Any = declared.takes or hints.get("body", no_body)
        self.headers = {name: _HEADERS[name] for name in hints if name in _HEADERS}
        self.id = re.sub(r"\W", "_", f"{ask.__name__}{self.path_format}_{declared.method.lower()}")
        named: list[Any] = [(name, hints[name] | None, None) for name in self.param_convertors]
        named += [(name, kind | None, None) for name, (_, kind) in self.headers.items()]
        renamed = {name: header for name, (header, _) in self.headers.items()}
        #: What its path and its headers say; None is one at fault, too.
        self._names = msgspec.defstruct("Names", named, rename=renamed)
        self._fields = {} if self.query is None else get_type_hints(self.query, include_extras=True)

    async def _answer(self, request: Request) -> Response:
        need(actor_of(request), self.declared.scope)
        given = "text/plain" if self.gives is str else "application/json"
        refuse_unless_acceptable(request, given)
        body = b"" if self.body is None else await received(request)
        asker: Asker = request.app.state.asker
        return await asker.ask(lambda: self._response(request, self._reply(request, body)))

    def _reply(self, request: Request, body: bytes) -> Reply[Any]:
        faults: list[Fault] = []
        values = self._named(request, faults)
        if self.query is not None:
            values["query"] = read_table(self.query, self._asked(request, faults), faults)
        else:
            self._asked(request, faults)
        content = {} if self.body is None else self._content(body, faults)
        if self.declared.takes is None and self.body is not None:
            said = {name: value for name, value in content.items() if value is not None}
            values["body"] = read_table(self.body, said, faults)
        if faults and self.declared.takes is None:
            raise invalid_request(faults)
        if values.get("key") is not None:
            values["key"] = _request_named(request, values["key"])
        values["call"] = Call(request=request, content=content, faults=faults)
        reply: Reply[Any] = self.ask(
            **{name: value for name, value in values.items() if name in self.takes}
        )
        return reply

    def _named(self, request: Request, faults: list[Fault]) -> dict[str, Any]:
        said = request.path_params
        given = {name: parsed(self.takes[name], text) for name, text in said.items()}
        for header, _ in self.headers.values():
            if sent := request.headers.getlist(header):
                given[header] = ",".join(sent)
        return msgspec.structs.asdict(read_table(self._names, given, faults))

    def _asked(self, request: Request, faults: list[Fault]) -> dict[str, Any]:
        return values_of(pairs_of(request.scope["query_string"]), self._fields, faults)

    def _content(self, body: bytes, faults: list[Fault]) -> Mapping[str, Any]:
        return read_object(body, faults, may_be_empty=not self.declared.needs_body)

    def _response(self, request: Request, reply: Reply[Any]) -> Response:
        headers, status = dict(reply.headers), reply.status or self.declared.status
        if reply.after is not None:
            headers["Link"] = f'<{address_after(request, reply.after)}>; rel="next"'
        if reply.value is None:
            return Response(status_code=status, headers=headers)
        if self.gives is str:
            text = reply.value.encode(errors="replace")
            return Response(text, status, headers, "text/plain; charset=utf-8")
        answer = Response(_json(reply.value), status, headers, "application/json")
        if self.declared.is_tagged:
            tag = f'"{blake2b(answer.body, digest_size=12).hexdigest()}"'
            answer.headers["ETag"] = tag
            seen = ",".join(request.headers.getlist("if-none-match")).split(",")
            if self.declared.method == "GET" and tag in [
                each.strip().removeprefix("W/") for each in seen
            ]:
                return Response(status_code=304, headers={"ETag": tag})
        return answer


def address_after(request: Request, after: object) -> str:
    asked = pairs_of(request.scope["query_string"])
    kept = [(name, text) for name, text in asked if name != "after"]
    query = urlencode(kept if after is None else [*kept, ("after", after)])
    return quote(request.scope["path"]) + (f"?{query}" if query else "")


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


def _request_named(request: Request, key: str) -> UUID:
    """Name a request by its Idempotency-Key: a name that fits a row, and tells nothing of it.

    Each token has keys of its own: nobody is answered what another one began.
    """
    actor = actor_of(request)
    whose = key if actor.name == LOCAL else f"{actor.name} {key}"  # neither has a blank
    return uuid5(NAMESPACE_URL, f"{request.scope['path']} {whose}")


def _json(view: Any) -> bytes:  # noqa: ANN401 - any view
    """Write one after the other: a thread keeps the interpreter while it writes a text."""
    if isinstance(view, (list, tuple)):
        return b"[" + b", ".join(map(_json, view)) + b"]"
    return as_json(view, encode=str).encode()

"""An operation of the API: declared once, by its signature; read, asked and answered in one thread.

The function below an `operation` is asked with what its parameters are called: `query` and `body`
are read as the classes that annotate them, `call` is the request besides, `key`, `if_match` and
`if_none_match` are its headers, and all else stands in the path. It gives a `Reply`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import quote, urlencode
from uuid import NAMESPACE_URL, UUID, uuid5

import attrs
import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cronhare.domain.access import LOCAL, Actor, Scope
from cronhare.domain.cron.timeline import FIRST_MINUTE, LAST_MINUTE, minute_of, moment_of
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.reading import Fault, Reads, read_table, whole_number
from cronhare.domain.texts.moments import read_iso
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import hint

from ...json_text import as_json
from ..access import actor_of, need
from ..asking import Asker, Asking
from ..bodies import pairs_of, read_object, received
from ..problems import MEDIA_TYPE, Problem, invalid_request

T = TypeVar("T")

#: Characters of a name that is asked for, and of a part of a text.
LONGEST_TEXT: Final = 255

#: Rows of a page, by default and at most.
ROWS: Final = 100
MOST_ROWS: Final = 1_000

#: Characters of a number in a query: those of any number in a row.
_LONGEST_NUMBER: Final = len(str(LARGEST_ID))


def described(text: str) -> Meta:
    """Say in the description what a parameter means; its first `Meta` says what is allowed."""
    return Meta(extra_json_schema={"description": text})


def letters(pattern: str, said: str) -> Meta:
    said = f"1-{LONGEST_TEXT} letters{said}"
    return Meta(min_length=1, max_length=LONGEST_TEXT, pattern=pattern, description=said)


def _moment(text: str) -> datetime:
    """Read a moment with its offset: whose wall time would it be without one?"""
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
    Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"}), Reads(_moment)]


@attrs.frozen(kw_only=True)
class Page:
    """A page of what has numbers."""

    after: AfterId | None = None
    limit: Limit = ROWS


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

    actor: Actor
    content: Mapping[str, Any]
    faults: list[Fault]


@attrs.frozen
class Reply(Generic[T]):
    """An answer. *after* is where the next page begins, if there may be one."""

    value: T
    status: int | None = None
    after: object = None
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], kw_only=True)


def last_id(found: Sequence[Any], *, limit: int) -> int | None:
    """Give the id after which a next page begins, if there may be one."""
    return found[-1].id if len(found) == limit else None


#: See `Pacing`, and `ReplayOrder` for the key.
_RULES: Final = ("rate", "jitter", "at_once", "canary", "attempts", "key")


def pacing(body: object, call: Call) -> dict[str, Any]:
    """Give the rules that a body says; the others have their defaults.

    `stop_at` may be null, which is never.
    """
    given = {name: getattr(body, name, None) for name in _RULES}
    rules = {name: value for name, value in given.items() if value is not None}
    if "stop_at" in call.content:
        rules["stop_at"] = getattr(body, "stop_at", None)
    return {**rules, "author": call.actor.name}


F = TypeVar("F", bound=Callable[..., Reply[Any]])


@attrs.frozen
class operation:  # noqa: N801 - it decorates
    """Declares that the function below answers *method* at *path*, and what comes of it.

    *what* is said of the answer, whose *status* that is, and of its *headers* by their names;
    *also* has what it may answer as well. A body *may_be_empty*. Of an answer that *is_tagged* one
    may ask whether it is still so. It *refuses* with these, and with `ALWAYS`. What it *takes* and
    *gives* the function's signature says, or else is said here.
    """

    method: str
    path: str
    what: str = attrs.field(kw_only=True)
    scope: Scope = attrs.field(default=Scope.READ, kw_only=True)
    status: int = attrs.field(default=200, kw_only=True)
    takes: type[attrs.AttrsInstance] | None = attrs.field(default=None, kw_only=True)
    gives: Any = attrs.field(default=None, kw_only=True)  # a type
    may_be_empty: bool = attrs.field(default=False, kw_only=True)
    is_tagged: bool = attrs.field(default=False, kw_only=True)
    refuses: tuple[int, ...] = attrs.field(default=(), kw_only=True)
    also: Mapping[int, tuple[str, type]] = attrs.field(factory=dict, kw_only=True)
    headers: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)

    def __call__(self, ask: F) -> F:
        vars(ask)["declared"] = self
        return ask


def operations_of(resource: Asking) -> Iterator["Operation"]:
    """Give the operations that the methods of a resource declare."""
    names = dict.fromkeys(name for kind in reversed(type(resource).mro()) for name in vars(kind))
    for name in names:
        ask = getattr(resource, name)
        if (declared := getattr(ask, "declared", None)) is not None:
            yield Operation(attrs.evolve(declared, path=resource.at(declared.path)), ask)


class Operation(Route):
    """What can be asked for: by whom, with what, and what comes of it."""

    def __init__(self, declared: operation, ask: Callable[..., Reply[Any]]) -> None:
        super().__init__(declared.path, self._answer, methods=[declared.method], name=ask.__name__)
        self.methods = {declared.method}  # HEAD is not among them
        self.declared, self.ask = declared, ask
        hints = get_type_hints(ask, include_extras=True)
        self.gives = declared.gives or get_args(hints.pop("return"))[0]
        self.takes: Mapping[str, Any] = hints
        self.query: type[Any] | None = hints.get("query")
        self.body = declared.takes or hints.get("body")
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
        return await asker.ask(partial(self._ask, request, body))

    def _ask(self, request: Request, body: bytes) -> Response:
        """Read, ask and write."""
        faults: list[Fault] = []
        values = self._named(request, faults)
        asked = self._asked(request, faults)
        if self.query is not None:
            values["query"] = read_table(self.query, asked, faults)
        content = (
            {}
            if self.body is None
            else read_object(body, faults, may_be_empty=self.declared.may_be_empty)
        )
        if "body" in self.takes:
            said = {name: value for name, value in content.items() if value is not None}
            values["body"] = read_table(self.takes["body"], said, faults)
        if faults and ("body" in self.takes or self.body is None):
            raise invalid_request(faults)
        if "call" in self.takes:
            values["call"] = Call(actor=actor_of(request), content=content, faults=faults)
        if values.get("key") is not None:
            values["key"] = _request_named(request, values["key"])
        return self._response(request, self.ask(**values))

    def _named(self, request: Request, faults: list[Fault]) -> dict[str, Any]:
        """Read its path and its headers."""
        said = request.path_params
        given = {name: _parsed(self.takes[name], text) for name, text in said.items()}
        for header, _ in self.headers.values():
            if sent := request.headers.getlist(header):
                given[header] = ",".join(sent)
        return msgspec.structs.asdict(read_table(self._names, given, faults))

    def _asked(self, request: Request, faults: list[Fault]) -> dict[str, Any]:
        """Give the query as it is to be read; what is not known, or there twice, is a fault."""
        asked: dict[str, Any] = {}
        for name, text in pairs_of(request.scope["query_string"]):
            kind = self._fields.get(name)
            if kind is None:
                if name not in asked:
                    told = f"is not known here; {hint(name, [*self._fields])}"
                    faults.append(Fault(shown(name), told))
            elif _is_list(kind):
                asked.setdefault(name, []).append(text)
            elif name in asked:
                faults.append(Fault(name, "is there several times"))
            else:
                asked[name] = _parsed(kind, text)
        return asked

    def _response(self, request: Request, reply: Reply[Any]) -> Response:
        """Write an answer; who has seen it already is told so, and no more."""
        headers, status = dict(reply.headers), reply.status or self.declared.status
        if reply.after is not None:
            asked = pairs_of(request.scope["query_string"])
            kept = [(name, text) for name, text in asked if name != "after"]
            query = urlencode([*kept, ("after", reply.after)])
            headers["Link"] = f'<{quote(request.scope["path"])}?{query}>; rel="next"'
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


def _parsed(kind: Any, text: str) -> Any:  # noqa: ANN401 - any annotation
    """Read a number or a switch; what is none is told with what is allowed.

    A number is written in ASCII's digits alone: one row has one address.
    """
    kinds = {*_kinds(kind)}
    if bool in kinds:
        return {"true": True, "false": False}.get(text, text)
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if int in kinds and is_number else text


def _is_list(kind: Any) -> bool:  # noqa: ANN401
    return list in {get_origin(each) for each in _kinds(kind)}


def _kinds(kind: Any) -> Iterator[Any]:  # noqa: ANN401
    """Give the parts of an annotation."""
    yield kind
    if get_origin(kind) is not list:
        for part in get_args(kind):
            yield from _kinds(part)


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

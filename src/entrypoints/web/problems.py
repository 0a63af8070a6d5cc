"""Errors over HTTP: problem details (RFC 9457), with every fault at once."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from cronhare.application.administration import Refused
from cronhare.application.administration.changing.replays import RequestReused
from cronhare.application.administration.changing.runs import CannotPause
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.lifecycle.enqueue import KeyTaken
from cronhare.domain.reading import MOST_FAULTS, Fault, Invalid
from cronhare.domain.schedules.draft import ScheduleInvalid
from cronhare.domain.texts.words import first_faults
from cronhare.ports import LedgerRefused, LedgerUnavailable

from ..json_text import as_json

MEDIA_TYPE: Final = "application/problem+json"

#: Seconds after which a ledger that is away may be asked again.
RETRY_AFTER: Final = 5


class Problem(Exception):
    """A request is not answered as it was meant; *faults* name what is wrong with its fields."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """*detail* is for people; it quotes nothing that could be a secret.

        *more* has members that this kind of problem has besides.
        """
        self.status = status
        self.detail = detail
        self.faults = first_faults(faults, MOST_FAULTS, as_fault=lambda text: Fault("", text))
        self.headers = dict(headers or {})
        self.more = dict(more or {})
        super().__init__(detail)

    @property
    def content(self) -> dict[str, Any]:
        members: dict[str, Any] = {
            "type": "about:blank",
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
        }
        if self.faults:
            members["errors"] = [
                {"field": fault.field, "problem": fault.problem} for fault in self.faults
            ]
        return members | self.more

    @property
    def response(self) -> Response:
        text = as_json(self.content, encode=str)
        return Response(text, self.status, headers=self.headers, media_type=MEDIA_TYPE)


#: What an answer with a problem looks like.
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "problem"],
                "properties": {"field": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
        "state": {"type": "string", "description": "of what forbids it"},
        "yours": {"type": "object", "description": "a stale edit: its version, and what it says"},
        "current": {"type": "object", "description": "the version there is, and all of it"},
    },
}


def _unavailable(error: LedgerUnavailable) -> Problem:
    done = "nothing was changed" if error.changed_nothing else "whether it was done is not known"
    detail = f"the ledger cannot be asked; {done}. Ask again, with the same Idempotency-Key"
    headers = {"Retry-After": str(RETRY_AFTER)}
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers=headers)


def invalid_request(faults: Sequence[Fault]) -> Problem:
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "the request has faults", faults=faults)


def _of_framework(error: HTTPException) -> Problem:
    status = HTTPStatus(error.status_code)
    return Problem(status, status.description or status.phrase, headers=error.headers)


#: What each error of a use case is over HTTP.
_PROBLEMS: Final[Mapping[type[Exception], Callable[[Any], Problem]]] = {
    Problem: lambda error: error,
    ScheduleInvalid: lambda error: Problem(
        HTTPStatus.UNPROCESSABLE_ENTITY, "the schedule has faults", faults=error.faults
    ),
    NotFound: lambda error: Problem(HTTPStatus.NOT_FOUND, str(error)),
    **dict.fromkeys(
        (Refused, KeyTaken, LedgerRefused),
        lambda error: Problem(HTTPStatus.CONFLICT, str(error)),
    ),
    CannotPause: lambda error: Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)),
    RequestReused: lambda error: Problem(
        HTTPStatus.UNPROCESSABLE_ENTITY, f"this Idempotency-Key was used before: {error}"
    ),
    Invalid: lambda error: invalid_request(error.faults),
    LedgerUnavailable: _unavailable,
    HTTPException: _of_framework,
    Exception: lambda _: Problem(
        HTTPStatus.INTERNAL_SERVER_ERROR, "this is a fault of ours; the log has it"
    ),
}


def problem_of(error: Exception) -> Problem:
    kind = next(kind for kind in type(error).__mro__ if kind in _PROBLEMS)
    return _PROBLEMS[kind](error)


def answer_problems(app: Starlette) -> None:
    for kind, as_problem in _PROBLEMS.items():

        async def answer(_: Request, error: Exception, make: Any = as_problem) -> Response:  # noqa: ANN401
            problem: Problem = make(error)
            return problem.response

        app.add_exception_handler(kind, answer)

    async def no_such_method(request: Request, _: Exception) -> Response:
        routes = [each for each in app.routes if isinstance(each, Route)]
        there = [each for each in routes if each.matches(request.scope)[0] is not Match.NONE]
        allowed = ", ".join(sorted({method for each in there for method in each.methods or ()}))
        detail = f"{request.scope['path']} takes {allowed}"
        headers = {"Allow": allowed}
        return Problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers=headers).response

    app.add_exception_handler(HTTPStatus.METHOD_NOT_ALLOWED, no_such_method)

"""What a client takes, and which methods a path has: 406, and the `Allow` of a 405 (RFC 9110)."""

from http import HTTPStatus

from fastapi import FastAPI, Request
from starlette.routing import Match, Route

from ..problems import MEDIA_TYPE, Problem


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

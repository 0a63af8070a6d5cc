"""What a route needs of whoever asks, said where the route is made."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import Depends, Request

from cronhare.domain.access import Actor, Scope

from ..problems import Problem

if TYPE_CHECKING:
    from .gate import Gate


def actor_of(request: Request) -> Actor:
    """Give who asks: the guard has found it out before any route is reached."""
    actor: Actor = request.state.actor
    return actor


def gate_of(request: Request) -> "Gate":
    """Give what knows who asks: for signing in and out."""
    gate: Gate = request.state.gate
    return gate


def needs(scope: Scope) -> Any:  # noqa: ANN401 - a dependency, as FastAPI has it
    """Let a route be asked by those alone whose scope is wide enough.

    It stands among the route's dependencies:
    `app.add_api_route(..., dependencies=[needs(Scope.OPERATE)])`. A route without one is for all
    who may read; each that changes something has one, which a test looks after.
    """

    def check(request: Request) -> None:
        actor = actor_of(request)
        if not actor.may(scope):
            detail = f"this needs the scope {scope}; {actor.name} has {actor.scope}"
            challenge = f'Bearer realm="cronhare", error="insufficient_scope", scope="{scope}"'
            headers = {"WWW-Authenticate": challenge}
            raise Problem(HTTPStatus.FORBIDDEN, detail, headers=headers)

    return Depends(check)

"""Signing in with a token, and out again."""

import secrets
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from cronhare.domain.access import RANDOM_BYTES, Scope, digest_of

from ...access import COOKIE, SECURE_COOKIE, SIGN_IN, actor_of, credentials_of, gate_of, local_path
from ..asked import form_of
from ..pages import HEADERS, Pages

_NOT_VALID: Final = "This token is not valid: it is none, has expired or was revoked."


def routes(pages: Pages) -> Iterator[BaseRoute]:
    """Answer at `/ui/sign-in` and `/ui/sign-out`."""
    view = SignIn(pages)
    yield pages.get(SIGN_IN, view.show, scope=Scope.NOTHING, takes=("next",))
    yield pages.post(SIGN_IN, view.sign_in, scope=Scope.NOTHING, takes=("next", "token"))
    yield pages.post("/ui/sign-out", view.sign_out, scope=Scope.READ)


class SignIn:
    """From a token to a session, and to its end."""

    def __init__(self, pages: Pages) -> None:
        """*pages* has the use cases."""
        self._pages = pages

    async def show(self, request: Request) -> Response:
        """Ask for a token; whoever has a session goes on."""
        path = local_path(request.query_params.get("next", "/"))
        if actor_of(request).may(Scope.READ):
            return RedirectResponse(path, HTTPStatus.SEE_OTHER, headers=HEADERS)
        return self._ask(request, path, fault=None, status=HTTPStatus.OK)

    async def sign_in(self, request: Request) -> Response:
        """Begin a session, with a cookie that no script reads and no other site sends."""
        form = form_of(request)
        path, token = local_path(form.get("next", "/")), form.get("token", "").strip()
        gate = gate_of(request)
        await gate.refuse_too_many(request.scope, digest_of(token))
        admission = self._pages.container.admission()
        begun = await self._pages.ask(
            lambda: admission.sign_in(token, chance=secrets.token_bytes(RANDOM_BYTES))
        )
        if begun is None:
            gate.was_wrong(request.scope)
            return self._ask(request, path, fault=_NOT_VALID, status=HTTPStatus.FORBIDDEN)
        response = RedirectResponse(path, HTTPStatus.SEE_OTHER, headers=HEADERS)
        https = request.state.https
        response.set_cookie(
            SECURE_COOKIE if https else COOKIE,
            begun.secret,
            max_age=begun.seconds,
            path="/",
            secure=https,
            httponly=True,
            samesite="strict",
        )
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session in the ledger, and forget the cookie."""
        https = request.state.https
        cookie = credentials_of(request.scope, https=https).session
        if cookie is not None:
            actor, admission = actor_of(request), self._pages.container.admission()
            await self._pages.ask(lambda: admission.sign_out(cookie, actor=actor))
            gate_of(request).forget(cookie)
        response = self._pages.done(SIGN_IN, "You have signed out.")
        name = SECURE_COOKIE if https else COOKIE
        response.delete_cookie(name, path="/", secure=https, httponly=True, samesite="strict")
        return response

    def _ask(self, request: Request, path: str, *, fault: str | None, status: int) -> Response:
        return self._pages.render(
            request, "sign_in.html", status=status, fault=fault, next=path, way_out=None
        )

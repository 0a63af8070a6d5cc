"""Signing in with a token, and out again."""

import secrets
from functools import partial
from http import HTTPStatus
from typing import Final

import attrs
from starlette.responses import RedirectResponse, Response

from cronhare.domain.access import RANDOM_BYTES, Scope, digest_of

from ...access import COOKIE, SECURE_COOKIE, SIGN_IN, credentials_of, gate_of, local_path
from ...operations import Call, Reply, Resource
from ..pages import HEADERS, Context, Done, acts, shows

_NOT_VALID: Final = "This token is not valid: it is none, has expired or was revoked."


@attrs.frozen(kw_only=True)
class Onwards:
    """Where the browser goes on to."""

    next: str = "/"


@attrs.frozen(kw_only=True)
class SignInForm(Onwards):
    """A token."""

    token: str = ""


class SignIn(Resource):
    """From a token to a session, and to its end."""

    @shows(SIGN_IN, "sign_in.html", scope=Scope.NOTHING)
    async def ask(self, query: Onwards, call: Call) -> Response | Reply[Context]:
        path = local_path(query.next)
        if call.actor.may(Scope.READ):
            return RedirectResponse(path, HTTPStatus.SEE_OTHER, headers=HEADERS)
        return _form(path)

    @acts(SIGN_IN, "sign_in.html", scope=Scope.NOTHING)
    async def sign_in(self, body: SignInForm, call: Call) -> Response | Reply[Context]:
        """Begin a session, with a cookie that no script reads and no other site sends."""
        path, gate, request = local_path(body.next), gate_of(call.request), call.request
        await gate.refuse_too_many(request.scope, digest_of(body.token))
        chance = secrets.token_bytes(RANDOM_BYTES)
        sign_in = partial(self._container.admission().sign_in, body.token, chance=chance)
        begun = await self._asker.ask(sign_in)
        if begun is None:
            gate.was_wrong(request.scope)
            return _form(path, fault=_NOT_VALID, status=HTTPStatus.FORBIDDEN)
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

    @acts("/ui/sign-out", scope=Scope.READ)
    async def sign_out(self, call: Call) -> Response:
        request, https = call.request, call.request.state.https
        cookie = credentials_of(request.scope, https=https).session
        if cookie is not None:
            admission = self._container.admission()
            await self._asker.ask(partial(admission.sign_out, cookie, actor=call.actor))
            gate_of(request).forget(cookie)
        response = Done(SIGN_IN, "You have signed out.").response
        name = SECURE_COOKIE if https else COOKIE
        response.delete_cookie(name, path="/", secure=https, httponly=True, samesite="strict")
        return response


def _form(path: str, *, fault: str | None = None, status: int = HTTPStatus.OK) -> Reply[Context]:
    return Reply({"now": None, "fault": fault, "next": path, "way_out": None}, status)

"""People in a browser: whether they come from here, and where they sign in."""

from collections.abc import Collection
from typing import Final
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from cronhare.domain.access import Channel, local_path

from .approach import SIGN_IN, channel_of

_READING: Final = frozenset({"GET", "HEAD"})
_NO_SITE_BUT_OURS: Final = frozenset({"same-origin", "none"})


def is_from_here(sites: Collection[str]) -> bool:
    """Whether `Sec-Fetch-Site` names no other site; a program sends none."""
    return all(site in _NO_SITE_BUT_OURS for site in sites)


def is_visit(scope: Scope) -> bool:
    """Whether somebody follows a link, from a message say, to look at the page: in no frame."""
    headers = Headers(scope=scope)
    return (
        scope["method"] in _READING
        and channel_of(scope) is Channel.PAGE
        and headers.getlist("sec-fetch-mode") == ["navigate"]
        and headers.getlist("sec-fetch-dest") == ["document"]
    )


def is_for_people(scope: Scope) -> bool:
    """Whether the answer is shown by a browser, as a page."""
    accepted = Headers(scope=scope).get("accept", "")
    return channel_of(scope) is Channel.PAGE and "text/html" in accepted


def to_sign_in(request: Request) -> Response:
    """Send somebody to sign in, and back again.

    A browser that follows a link of another site does not bring our cookie. So it is asked to come
    again from here, which it does with it.
    """
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    path = local_path(asked) if request.method in _READING else "/"
    if not is_from_here(request.headers.getlist("sec-fetch-site")):
        target = quote(path, safe="/?&=%-._~:,+")
        return HTMLResponse(
            '<!doctype html><html lang="en"><title>cronhare</title>'
            f'<meta http-equiv="refresh" content="0; url={target.replace("&", "&amp;")}">'
        )
    query = "" if path == "/" else f"?{urlencode({'next': path})}"
    return RedirectResponse(f"{SIGN_IN}{query}", 303)

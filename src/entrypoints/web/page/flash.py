"""A word about a change, from the form that made it to the page that the browser goes on to.

It is a cookie of this site, and shown as text: whoever could write one could say something untrue
once, and nothing more. So it is short, and read with care.
"""

from typing import Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

_COOKIE: Final = "cronhare_said"
_LONGEST: Final = 500
_SECONDS: Final = 30


def remember(response: Response, said: str) -> None:
    """Send a word along with a redirect."""
    response.set_cookie(
        _COOKIE,
        quote(said[:_LONGEST], safe=""),
        max_age=_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
    )


def said_to(request: Request) -> str | None:
    """Read the word that came along, if there is one."""
    said = unquote(request.cookies.get(_COOKIE, ""), errors="replace")[:_LONGEST]
    return "".join(each for each in said if each.isprintable()) or None


def forget(request: Request, response: Response) -> None:
    """Say it once."""
    if _COOKIE in request.cookies:
        response.delete_cookie(_COOKIE, path="/", httponly=True, samesite="strict")

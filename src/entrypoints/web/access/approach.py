"""How a request came in, and what it brings to say who asks; read from its head alone."""

from ipaddress import ip_address
from typing import Final

import attrs
from starlette.datastructures import Headers
from starlette.types import Scope

from cronhare.domain.access import Approach, Channel
from cronhare.domain.addresses.web import ListenAddress

from ...vitals import HEALTH, READINESS

#: The cookie of a session, over TLS and without: the prefix has browsers take it from TLS alone,
#: and from no neighbour's domain.
COOKIE: Final = "cronhare_session"
SECURE_COOKIE: Final = "__Host-cronhare_session"

#: What a proxy adds that stands before us.
_OF_PROXIES: Final = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)

#: What may be asked for by whoever has not said who it is: how to do that, and what it looks like.
SIGN_IN: Final = "/ui/sign-in"
_FILES: Final = "/ui/static/"


@attrs.frozen(kw_only=True)
class Credentials:
    """What a request brings: a *token*, or else the *session* of a page.

    *fault* says why neither can be read.
    """

    token: str | None = attrs.field(default=None, repr=False)
    session: str | None = attrs.field(default=None, repr=False)
    fault: str | None = None


def channel_of(scope: Scope) -> Channel:
    """Tell whether the page is asked, or the API."""
    path = scope["path"]
    return Channel.PAGE if path == "/" or path.startswith("/ui/") else Channel.API


def is_sign_in(scope: Scope) -> bool:
    """Whether somebody is about to say who it is."""
    return bool(scope["path"] == SIGN_IN)


def is_file(scope: Scope) -> bool:
    """Whether a file of the page is asked for, which tells nothing."""
    return bool(scope["path"].startswith(_FILES))


def is_probe(scope: Scope) -> bool:
    """Whether it is asked if this process lives, or is ready: whoever starts it has no token."""
    return scope["path"] in {HEALTH, READINESS}


def address_of(scope: Scope) -> str:
    """Give the address of the client, as far as it is known."""
    return (scope.get("client") or ("",))[0]


def approach_of(scope: Scope, *, host: ListenAddress | None) -> Approach:
    """Tell how a request came in; *host* is the address that its Host names, if it is one."""
    headers = Headers(scope=scope)
    try:
        is_ours = ip_address(address_of(scope)).is_loopback
    except ValueError:
        is_ours = False
    return Approach(
        is_loopback=is_ours and host is not None and host.is_loopback,
        is_forwarded=any(name in headers for name in _OF_PROXIES),
    )


def credentials_of(scope: Scope, *, https: bool) -> Credentials:
    """Read what a request brings. The session is for the page alone, over TLS by its own name."""
    headers = Headers(scope=scope)
    given = headers.getlist("authorization")
    if len(given) > 1:
        return Credentials(fault="it has several Authorization headers; one says who asks")
    if given:
        kind, _, token = given[0].partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            return Credentials(fault="it is to have Authorization: Bearer, and a token")
        return Credentials(token=token.strip())
    if channel_of(scope) is not Channel.PAGE:
        return Credentials()
    return Credentials(session=_cookie(headers, SECURE_COOKIE if https else COOKIE))


def _cookie(headers: Headers, name: str) -> str | None:
    """Give the cookie; of several with its name none, as one of them is somebody else's."""
    found: list[str] = []
    for header in headers.getlist("cookie"):
        for part in header.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                found.append(value)
    return found[0] if len(found) == 1 else None

"""What may be sent: the method and headers that a caller chose, beside those that are ours."""

import re
from typing import Final

from cronhare.domain.addresses import WebAddress
from cronhare.ports.http import HttpRefused, HttpRequest

#: RFC 9110's token.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_METHOD: Final = re.compile(r"[A-Z]{1,32}")

#: No line ends, and what Latin-1 can say; a value ends in no blank that a server would take off.
_VALUE: Final = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")

MOST_HEADERS: Final = 64
LONGEST_HEADER: Final = 8_192
LARGEST_BODY: Final = 2**20

#: They frame a message or say whom it is for: ours alone, or one request could hide another.
_OURS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def header_fault(name: str, value: str) -> str | None:
    """Say why a header may not be sent; None if it may."""
    if not _TOKEN.fullmatch(name):
        return "a header's name is letters, digits and -"
    if name.lower() in _OURS:
        return f"the header {name} is not a caller's to set"
    if len(value) > LONGEST_HEADER:
        return f"the header {name} is longer than {LONGEST_HEADER:,} characters"
    if not _VALUE.fullmatch(value):
        return f"the header {name} has a line end, a control character or one beyond Latin-1"
    return None


def checked(request: HttpRequest) -> None:
    """Make sure that a request says what it seems to say.

    Raises:
        HttpRefused: it may not be sent.
    """
    if not _METHOD.fullmatch(request.method) or request.method == "CONNECT":
        raise HttpRefused("the method must be like GET or POST")
    if len(request.body) > LARGEST_BODY:
        raise HttpRefused(f"the body is larger than {LARGEST_BODY // 2**20} MiB")
    if len(request.headers) > MOST_HEADERS:
        raise HttpRefused(f"there are more than {MOST_HEADERS} headers")
    for name, value in request.headers.items():
        if (fault := header_fault(name, value)) is not None:
            raise HttpRefused(fault)


def sent_headers(request: HttpRequest, *, agent: str) -> dict[str, str]:
    """Give all headers: the caller's, then ours."""
    theirs = {name.lower() for name in request.headers}
    ours = {
        "Host": host_header(request.address),
        "Connection": "close",
        "Accept-Encoding": "identity",
        "User-Agent": agent,
    }
    if request.body or request.method in {"POST", "PUT", "PATCH"}:
        ours["Content-Length"] = str(len(request.body))
    return {**{name: ours[name] for name in ours if name.lower() not in theirs}, **request.headers}


def host_header(web: WebAddress) -> str:
    """Give the host as the request names it, with a port where it is not the usual one."""
    return str(web).partition("://")[2]

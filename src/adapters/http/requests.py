"""What may be sent: the method and headers that a caller chose, beside those that are ours."""

import re
from typing import Final

from cronhare.domain.addresses.web import WebAddress
from cronhare.domain.schedules.http_call import MOST_SENT, fault_of_name, fault_of_value
from cronhare.domain.texts.printable import echo
from cronhare.ports.system import HttpRefused, HttpRequest

_METHOD: Final = re.compile(r"[A-Z]{1,32}")

LARGEST_BODY: Final = 2**20


def checked(request: HttpRequest) -> None:
    """Make sure that a request says what it seems to say.

    Raises:
        HttpRefused: it may not be sent.
    """
    if not _METHOD.fullmatch(request.method) or request.method == "CONNECT":
        raise HttpRefused("the method must be like GET or POST")
    if len(request.body) > LARGEST_BODY:
        raise HttpRefused(f"the body is larger than {LARGEST_BODY // 2**20} MiB")
    if len(request.headers) > MOST_SENT:
        raise HttpRefused(f"there are more than {MOST_SENT} headers")
    for name, value in request.headers.items():
        if (fault := fault_of_name(name) or fault_of_value(value)) is not None:
            raise HttpRefused(f"the header {echo(name)} {fault}")


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

"""What is answered: /healthz, /readyz and /metrics, as a WSGI application."""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from cronhare.domain.addresses.listen_address import is_meant

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

HEALTH, READINESS, METRICS = "/healthz", "/readyz", "/metrics"

_OK, _NOT_FOUND, _NOT_ALLOWED = "200 OK", "404 Not Found", "405 Method Not Allowed"
_MISDIRECTED = "421 Misdirected Request"
_FAULT, _AWAY = "500 Internal Server Error", "503 Service Unavailable"

#: A probe is asked again and again, and each answer is of its own moment.
_PLAIN: Final = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]

Faults = Callable[[], Sequence[str]]


def probe_application(
    *, health: Faults, readiness: Faults, metrics: "WSGIApplication"
) -> "WSGIApplication":
    """Make the application. A probe without *faults* is answered with 200, others with 503.

    A browser lets any page of the world reach a loopback address, by a name that is pointed at it:
    there the Host has to be of this machine. Who sends none is no browser.
    """
    probes = {HEALTH: health, READINESS: readiness}

    def answer(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        try:
            return _answer(environ, start)
        except Exception:
            log.exception("A probe met a fault of ours", extra={"action": "probes.fault"})
            return _say(start, _FAULT, {"fault": "a fault of ours; the log has it"})

    def _answer(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        host, ours = environ.get("HTTP_HOST"), environ["SERVER_NAME"]
        if host is not None and ip_address(ours).is_loopback and not is_meant(host, ours):
            refused = {"fault": "the Host header names neither this address nor localhost"}
            return _say(start, _MISDIRECTED, refused)
        path, method = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"]
        if method not in {"GET", "HEAD"}:
            return _say(start, _NOT_ALLOWED, {"fault": "ask with GET"}, [("Allow", "GET, HEAD")])
        if path == METRICS:
            text = metrics({**environ, "REQUEST_METHOD": "GET"}, start)
            return [] if method == "HEAD" else text
        if (faults_of := probes.get(path)) is None:
            known = {"fault": "there are /healthz, /readyz and /metrics"}
            return _say(start, _NOT_FOUND, known)
        faults = list(faults_of())
        body = _say(start, _AWAY if faults else _OK, {"ok": not faults, "faults": faults})
        return [] if method == "HEAD" else body

    return answer


def _say(
    start: "StartResponse", status: str, said: object, more: Sequence[tuple[str, str]] = ()
) -> list[bytes]:
    start(status, [*_PLAIN, *more])
    return [json.dumps(said).encode() + b"\n"]

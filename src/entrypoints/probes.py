"""What monitoring asks a process at `CRON_PROBE_ADDRESS`: does it live, is it ready, its counts.

The server is the standard library's, with bounds, in threads of its own: it has to be there in
every process, so it needs no extra; and the rest of the process must not notice who asks.
"""

import io
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version
from ipaddress import IPv6Address, ip_address
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector

from cronhare.adapters.connections import BoundedSocket, Deadline
from cronhare.adapters.prometheus.measuring import LedgerMeasuring, VitalsCollector
from cronhare.application.administration.views.work import MetricsView
from cronhare.domain.addresses.web import ListenAddress, is_meant

from .vitals import Vitals

if TYPE_CHECKING:
    from wsgiref.headers import Headers
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


#: Connections at a time; for another one the oldest is closed.
MOST_CONNECTIONS: Final = 16

#: Seconds that a connection may last, its answer included, and bytes of its request.
WITHIN: Final = 10.0
LARGEST_REQUEST: Final = 8 * 1024


class ProbeServer(ThreadingMixIn, WSGIServer):
    """Answers each connection once, in a thread."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, address: ListenAddress, app: "WSGIApplication") -> None:
        """Bind *address*.

        Raises:
            OSError: another program has it, or this machine has not.
        """
        is_v6 = isinstance(address.host, IPv6Address)
        self.address_family = socket.AF_INET6 if is_v6 else socket.AF_INET
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        super().__init__((str(address.host), address.port), _Handler)
        self.set_app(app)

    def start(self) -> None:
        """Begin to answer."""
        threading.Thread(target=self.serve_forever, name="probes", daemon=True).start()

    def server_bind(self) -> None:
        """Bind, without a look for the host's name: a resolver may be slow."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        host, port, *_ = self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(host), port
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Answer, if need be in place of the oldest that is still there."""
        with self._lock:
            if len(self._open) >= MOST_CONNECTIONS:
                with suppress(OSError):
                    self._open.pop(0).shutdown(socket.SHUT_RDWR)
            self._open.append(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as above
        """Close a connection."""
        with self._lock, suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Say nothing of a connection that broke, or was too slow: whoever asked knows."""


class _Answer(ServerHandler):
    """Tells nobody which release of Python this is, and lets nobody guess what it answers."""

    server_software = "cronhare"
    headers: "Headers"

    def cleanup_headers(self) -> None:
        """Add what each answer has."""
        super().cleanup_headers()
        self.headers["X-Content-Type-Options"] = "nosniff"


class _Handler(WSGIRequestHandler):
    """Reads one request within bounds, and answers it."""

    server_version, sys_version = "cronhare", ""

    def setup(self) -> None:
        """Bound what is read, and the time for all of it."""
        self._bounded = BoundedSocket(self.request, Deadline(WITHIN), most=LARGEST_REQUEST)
        self.connection = self.request
        self.rfile = self._bounded.makefile("rb")
        self.wfile = self._answer = io.BytesIO()

    def finish(self) -> None:
        """Send the answer."""
        self._bounded.sendall(self._answer.getvalue())
        self.rfile.close()

    def handle(self) -> None:
        """Answer one request; its body, if it has one, is not read."""
        self.raw_requestline = self.rfile.readline(LARGEST_REQUEST)
        if not self.raw_requestline or not self.parse_request():
            return
        nothing = io.BytesIO()
        environ = self.get_environ()
        handler = _Answer(nothing, self._answer, io.StringIO(), environ, multithread=True)
        handler.request_handler = self  # type: ignore[attr-defined]
        handler.run(self.server.get_app())  # type: ignore[attr-defined]

    def address_string(self) -> str:
        """Give the address as it is, without a look for its name."""
        return str(self.client_address[0])

    def log_message(self, *_: object) -> None:
        """Log nothing: probes come every few seconds."""


def make_registry(vitals: Vitals, measure: Callable[[], MetricsView]) -> CollectorRegistry:
    """Give what a process is asked for, and what the ledger counts; counters join by themselves."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(
        VitalsCollector(
            version=version("cronhare"),
            connections=vitals.proofs.up,
            last_turns=vitals.turns.last,
            numbers=vitals.numbers,
        )
    )
    registry.register(LedgerMeasuring(measure, is_wanted=vitals.measures_ledger_now))
    return registry

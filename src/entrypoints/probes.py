"""What monitoring asks a process at `CRON_PROBE_ADDRESS`: does it live, is it ready, its counts.

The server is the standard library's, in threads of its own: it has to be there in every process, so
it needs no extra.
"""

import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from importlib.metadata import version
from ipaddress import IPv6Address, ip_address
from socketserver import TCPServer
from typing import Any, Final

from prometheus_client import CollectorRegistry, MetricsHandler, ProcessCollector

from cronhare.adapters.addresses import ListenAddress, meant_address
from cronhare.adapters.prometheus import catalogue
from cronhare.adapters.prometheus.metrics import Gauges, LedgerMeasuring
from cronhare.application.administration.views.work import Measured

from .vitals import HEALTH, METRICS, READINESS, Vitals

log = logging.getLogger(__name__)

#: Seconds for which a connection may say nothing.
WITHIN: Final = 10.0


class ProbeServer(ThreadingHTTPServer):
    """Answers each connection once. A probe without faults is answered with 200, others with 503.

    A browser lets any page of the world reach a loopback address, by a name that is pointed at it:
    there the Host has to be of this machine. Who sends none is no browser.
    """

    server_name: str
    server_port: int

    def __init__(self, address: ListenAddress, vitals: Vitals, registry: CollectorRegistry) -> None:
        """Bind *address*. Raises OSError: another program has it, or this machine has not."""
        self.address_family = (
            socket.AF_INET6 if isinstance(address.host, IPv6Address) else socket.AF_INET
        )
        self.faults_of = {HEALTH: vitals.turns.faults, READINESS: vitals.proofs.faults}
        self.registry = registry
        super().__init__((str(address.host), address.port), _Handler)

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, name="probes", daemon=True).start()

    def server_bind(self) -> None:
        """Bind, without a look for the host's name: a resolver may be slow."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - theirs
        """Say nothing of a connection that broke: whoever asked knows."""


class _Handler(MetricsHandler):
    """Reads one request, and answers it; nothing is logged, as probes come every few seconds."""

    server: ProbeServer
    server_version, sys_version = "cronhare", ""
    timeout = WITHIN

    def setup(self) -> None:
        self.registry = self.server.registry
        super().setup()

    def end_headers(self) -> None:
        """Let nobody guess what it is, or keep it: each answer is of its own moment."""
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def do_HEAD(self) -> None:  # noqa: N802 - the standard library's name
        self.do_GET()

    def do_GET(self) -> None:  # noqa: N802
        try:
            self._answer(self.path.partition("?")[0])
        except OSError:
            raise  # the connection broke
        except Exception:
            log.exception("A probe met a fault of ours", extra={"action": "probes.fault"})
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, fault="a fault of ours; the log has it")

    def _answer(self, path: str) -> None:
        host, ours = self.headers.get("Host"), self.server.server_name
        if host is not None and ip_address(ours).is_loopback and meant_address(host, ours) is None:
            fault = "the Host header names neither this address nor localhost"
            self._say(HTTPStatus.MISDIRECTED_REQUEST, fault=fault)
        elif path == METRICS and self.command == "GET":
            super().do_GET()
        elif path == METRICS:
            self._say(HTTPStatus.OK)
        elif (faults_of := self.server.faults_of.get(path)) is None:
            self._say(HTTPStatus.NOT_FOUND, fault="there are /healthz, /readyz and /metrics")
        else:
            faults = list(faults_of())
            status = HTTPStatus.SERVICE_UNAVAILABLE if faults else HTTPStatus.OK
            self._say(status, ok=not faults, faults=faults)

    def _say(self, status: HTTPStatus, **said: object) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(json.dumps(said).encode() + b"\n")


def make_registry(vitals: Vitals, measure: Callable[[], Measured]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    release = version("cronhare")
    registry.register(
        Gauges(
            {
                catalogue.BUILD: lambda: {(release,): 1},
                catalogue.CONNECTION_UP: lambda: _labelled(vitals.proofs.up()),
                catalogue.LAST_TURN: lambda: _labelled(vitals.turns.last()),
                # The process says later how these are known.
                catalogue.CLOCK_OFFSET: lambda: vitals.clock_offset(),  # noqa: PLW0108
                catalogue.RUNNING: lambda: vitals.running(),  # noqa: PLW0108
                catalogue.SLOTS: lambda: vitals.slots(),  # noqa: PLW0108
            }
        )
    )
    registry.register(LedgerMeasuring(measure, is_wanted=vitals.measures_ledger_now))
    return registry


def _labelled(values: Mapping[str, float]) -> Mapping[tuple[str, ...], float]:
    return {(name,): value for name, value in values.items()}

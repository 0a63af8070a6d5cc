"""Who is told by webhook: an HTTP server on this machine, which believes what is signed."""

import hmac
import json
import threading
import time
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Seconds by which a signed time may differ from ours: an older one is somebody's copy.
TOLERANCE = 300
LARGEST = 1 << 20


@dataclass(frozen=True)
class Told:
    """An event, as it came."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def event(self) -> Mapping[str, Any]:
        """What it says."""
        event: Mapping[str, Any] = json.loads(self.body)
        return event

    @property
    def schedule(self) -> str:
        """Whose it is."""
        return str(self.event["data"]["metadata"]["schedule"])


class Receiver:
    """Takes what is posted to it; *told* is what was signed with the *secret*."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self.told: list[Told] = []
        self.refused = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def take(self, told: Told) -> int:
        """Give the status of the answer."""
        if not self.is_genuine(told):
            self.refused += 1
            return 401
        self.told.append(told)
        return 204

    def is_genuine(self, told: Told) -> bool:
        """Verify a signature, in the manner of https://www.standardwebhooks.com."""
        id_, at = told.headers.get("webhook-id", ""), told.headers.get("webhook-timestamp", "")
        if not at.isdigit() or abs(time.time() - int(at)) > TOLERANCE:
            return False
        content = b".".join((id_.encode(), at.encode(), told.body))
        expected = hmac.digest(self._secret, content, "sha256")
        version, _, signature = told.headers.get("webhook-signature", "").partition(",")
        try:
            given = b64decode(signature, validate=True)
        except (NotBase64, ValueError):
            return False
        return version == "v1" and hmac.compare_digest(given, expected)

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def _handler_of(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            length = min(int(self.headers.get("content-length", "0")), LARGEST)
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(receiver.take(Told(headers, self.rfile.read(length))))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing: what came of it is told by the demonstration."""

    return Handler
